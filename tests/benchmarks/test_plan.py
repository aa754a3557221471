"""The page of predicted and measured plans, and its exit code."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "plans" / "plan.py"


def report(error: float = 0.1, gain: float = 1.02, quartiles: tuple[float, float] = (1.0, 1.1)):
    def plan(*names: str, measured: float = 10.0) -> dict[str, Any]:
        times = {"predicted_ms": 10 * (1 + error), "measured_ms": measured, "error": error}
        parts = {"convolutions_ms": 9.0, "of_it_from_log_ms": 4.5, "transforms_ms": 0.5}
        return {"names": names, **times, **parts, "runs_ms": [measured]}

    scheme = {"workload": "a conv", "config": "c", "calls": 2}
    network = {
        "network": "net",
        "error": error,
        "spearman": 0.9,
        "gain": gain,
        "gain_quartiles": quartiles,
        "predicted_gain": 1.03,
        "core_share": 0.5,
        "everything_else_ms": 0.5,
        "in_network": {"convolutions_ms": 9.5, "transforms_ms": 0.4},
        "plans": [plan("global"), plan("greedy"), plan("all NCHW16c", measured=12.0)],
        "schemes": [{**scheme, "predicted_ms": 1.0, "in_network_ms": 2.0}],
    }
    machine = {"model": "A CPU", "cpu": "acpu", "cores": 2}
    about = {
        "machine": machine,
        "threads": 2,
        "commit": "abc",
        "time": "now",
        "versions": {"x": "1"},
    }
    return {**about, "networks": [network]}


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any]) -> object:
    found, page = tmp_path / "plan_net.json", tmp_path / "plan.md"
    found.write_text(json.dumps(content))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(found), "--markdown", str(page)])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return stop.value.code


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, monkeypatch, report()) == 0
    page = (tmp_path / "plan.md").read_text()
    row = "| net | 11.000 | 10.000 | +10.0% | 0.90 | 1.020x | 1.000-1.100 | 1.030x | 1.200x | 2 |"
    assert row in page
    assert "(50% of their predicted time is from the log)" in page
    assert "Disturbed: the runs got 50% of their core" in page
    assert "a conv (2 calls) 1.000 predicted, 2.000 in place" in page


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (report(error=-0.16), 1, "off: net"),
        (report(gain=0.95, quartiles=(0.9, 0.98)), 1, "greedy: net"),
        (report(gain=0.99, quartiles=(0.9, 1.02)), 0, "greedy: none"),  # noise
    ],
)
def test_what_it_complains_of(
    content: dict[str, Any], code: int, words: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    assert run(tmp_path, monkeypatch, content) == code
    assert words in capsys.readouterr().out
