"""Groups against layers one by one, as a script: what it times, saves and reports."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "groups" / "fused_blocks.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return runpy.run_path(str(SCRIPT))


def test_a_network_saved_and_timed(script: dict[str, object], tmp_path: Path) -> None:
    main, report = script["main"], tmp_path / "report.json"
    assert callable(main)
    assert main(["lenet", "--save", str(tmp_path)]) == 0
    timing = ["lenet", "--load", str(tmp_path), "--rounds", "4", "--json", str(report)]
    assert main(timing) in (0, 1)
    assert main(timing) in (0, 1)
    written, again = json.loads(report.read_text())
    assert {"machine", "threads", "commit", "versions", "rounds"} <= set(written) == set(again)
    (row,) = written["networks"]
    assert row["network"] == "lenet"
    assert row["difference"] == 0
    assert row["quartiles"][0] <= row["gain"] <= row["quartiles"][1]


@pytest.mark.slow
def test_pools_alone_are_tried(
    script: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    modules = script["modules"]
    assert callable(modules)
    target = "llvm -mcpu=znver4 -num-cores=1"
    for tried, groups in ((None, 0), ("pools", 1)):
        modules("googlenet", tried, target)
        assert f"googlenet: {groups} functions of groups" in capsys.readouterr().out


def test_the_difference_of_outputs_is_a_share_of_the_largest(script: dict[str, object]) -> None:
    measured = script["measured"]
    assert callable(measured)
    outputs = [np.array([1.0, -4.0]), np.array([1.0, -4.4])]
    row = measured("x", lambda: outputs[0], lambda: outputs[1], rounds=4)
    assert row["difference"] == pytest.approx(0.1)
