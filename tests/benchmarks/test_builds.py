"""Cold builds, as a script: what it tells of a network."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "networks" / "builds.py"


def test_a_small_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert runpy.run_path(str(SCRIPT))["main"](["lenet", "--json", str(report)]) == 0
    (row,) = json.loads(report.read_text())
    assert row["network"] == "lenet"
    assert row["machine"]["cores"] > 0 and row["commit"] and row["threads"] > 0
    assert row["weights_mb"] == pytest.approx(0.2, abs=0.1)
    assert row["seconds"] > 0 and row["cpu_seconds"] > 0 and row["grown_mb"] > 0
    assert f"lenet: {row['seconds']} s" in capsys.readouterr().out
