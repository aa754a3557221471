"""The benchmark of the global search runs and reports."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "plans"


def test_the_script(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["lenet", "--target", "llvm -mcpu=skylake-avx512"]
    argv += ["--json", str(tmp_path / "out.json"), "--markdown", str(tmp_path / "out.md")]
    monkeypatch.syspath_prepend(FOLDER)
    script = str(FOLDER / "global_search.py")
    monkeypatch.setattr(sys, "argv", [script, *argv])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(script, run_name="__main__")
    assert stop.value.code == 0
    assert "global behind greedy: none" in capsys.readouterr().out
    report = json.loads((tmp_path / "out.json").read_text())
    assert {"machine", "versions", "commit", "time", "threads"} <= report.keys()
    (network,) = report["networks"]
    assert (network["network"], network["optimal"], network["in_time"]) == ("lenet", True, True)
    assert "| lenet | 5 |" in (tmp_path / "out.md").read_text()
