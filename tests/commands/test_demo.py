"""The demonstration, on the smallest network."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tvm_neocpu.commands import demo
from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.outcome import Outcome


def test_it_tunes_builds_and_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RUNS", 5)
    words = ["--model", "lenet", "--seconds", "1", "--folder", str(tmp_path)]
    assert demo.main(words) == 0
    out = capsys.readouterr().out
    assert "untuned" in out and "tuned" in out
    assert (tmp_path / "tuned.so").exists()
    assert "the table's turns say" in out


def outcome(ratio: float) -> Outcome:
    proof = Proof(Ratio(math.log(ratio), 0.004), 0.0, 0.01, 0.01 * ratio)
    return Outcome(None, 30, 0, 60.0, proof)


def test_one_figure_counts_and_the_other_is_explained() -> None:
    turns = Ratio(math.log(1.03), 0.02)
    assert demo.about_tuning(turns, outcome(0.94)) == (
        "Tuned is 1.06x faster (1.06-1.07): that was proven. For comparison, the table's turns "
        "say 0.97x (0.93-1.01): they are fewer, and short bursts after a pause."
    )


def test_where_nothing_was_proven_the_builds_are_the_same() -> None:
    text = demo.about_tuning(Ratio(math.log(1.03), 0.02), outcome(1.0))
    assert text == (
        "No faster plan was proven, so both builds run the same; the table's turns say 0.97x "
        "(0.93-1.01)."
    )
