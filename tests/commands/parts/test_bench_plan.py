"""`bench plan`: its report, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_neocpu.commands.bench import main


@pytest.mark.slow
def test_the_report_adds_up(tiny_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = Path("out.json")
    argv = ["plan", tiny_file, "--random", "1", "--runs", "5"]
    assert main([*argv, "--json", str(out)]) == 0
    assert "global over greedy" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert {"machine", "threads", "commit", "time", "versions"} <= report.keys()
    (network,) = report["networks"]
    assert {"error", "spearman", "gain", "plans", "schemes", "everything_else_ms"} <= network.keys()
    for plan in network["plans"]:
        parts = plan["convolutions_ms"] + plan["transforms_ms"] + network["everything_else_ms"]
        assert plan["predicted_ms"] == pytest.approx(parts)
        assert plan["error"] == pytest.approx(plan["predicted_ms"] / plan["measured_ms"] - 1)


def test_a_log_that_is_not_there_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "lenet", "--log", "/nowhere/at.all"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
