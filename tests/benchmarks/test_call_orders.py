"""File order against the order of the smallest arena, as a script: what it builds and reports."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.model_zoo.builder import GraphBuilder

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "groups" / "call_orders.py"
SHAPE = (1, 8, 12, 12)


def two_branches() -> onnx.ModelProto:
    """Both branches widen first in the file; one after the other keeps less alive."""
    g = GraphBuilder("branches", SHAPE, np.random.default_rng(7))
    wide = [g.relu(g.conv(g.data, f"wide{at}", 64, 3, padding=1), f"relu{at}") for at in range(2)]
    narrow = [g.conv(x, f"narrow{at}", 8, 3, padding=1) for at, x in enumerate(wide)]
    return g.finish(g.relu(g.add(*narrow, "sum"), "last"))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setattr(model_zoo, "build", lambda name: two_branches())
    monkeypatch.setattr(model_zoo, "input_shape", lambda name: SHAPE)
    return runpy.run_path(str(SCRIPT))


def test_a_network_in_both_orders(script: dict[str, Any], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert script["main"](["branches", "--rounds", "4", "--json", str(report)]) in (0, 1)
    (row,) = json.loads(report.read_text())["networks"]
    assert row["largest_live_set"] <= row["arena"] < row["file_arena"]
    assert row["difference"] == 0
    assert row["quartiles"][0] <= row["gain"] <= row["quartiles"][1]


def test_orders_saved_and_timed(script: dict[str, Any], tmp_path: Path) -> None:
    report, folder = tmp_path / "report.json", str(tmp_path / "saved")
    assert script["main"](["branches", "--save", folder]) == 0
    argv = ["branches", "--load", folder, "--rounds", "4", "--json", str(report)]
    assert script["main"](argv) in (0, 1)
    (row,) = json.loads(report.read_text())["networks"]
    assert row["largest_live_set"] <= row["arena"] < row["file_arena"]
    assert row["difference"] == 0


def test_a_network_whose_order_stays_is_not_timed(
    script: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain = GraphBuilder("chain", SHAPE, np.random.default_rng(7))
    model = chain.finish(chain.relu(chain.conv(chain.data, "conv", 8, 3), "relu"))
    monkeypatch.setattr(model_zoo, "build", lambda name: model)
    report = tmp_path / "report.json"
    assert script["main"](["chain", "--json", str(report)]) == 0
    assert "chain: the order stays" in capsys.readouterr().out
    assert json.loads(report.read_text())["networks"] == []
