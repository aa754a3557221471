"""What a session shows: the state in one line, plain or live."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tvm_neocpu.tuning.in_network.report.progress import (
    PlainProgress,
    State,
    TerminalProgress,
    progress_for,
)

STATE = State(0.02, 0.05, 30, 0, 3, 7, 10.0, 65.0, ("first", "second", "third", "fourth"))


def test_a_state_is_one_line() -> None:
    assert str(STATE) == (
        "1.00 ms of 20.00 found; 30 candidates (3.0/s); 7 of 10 layers settled, 1:05 left"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"failed": 2}, "(3.0/s), 2 failed;"),
        ({"left": None}, "7 of 10 layers settled"),
        ({"left": -4.0}, "layers settled, 0:00 left"),
        ({"spent": 0.0}, "30 candidates (0.0/s)"),
    ],
)
def test_what_a_state_says(change: dict[str, object], text: str) -> None:
    assert text in str(replace(STATE, **change))
    assert ("left" in str(replace(STATE, left=None))) is False


def test_plain_lines_are_seldom() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, every=3600.0)
    progress.update(STATE)
    assert stream.getvalue() == ""
    progress.say("proving")
    progress.close()
    assert stream.getvalue() == "proving\n"
    PlainProgress(stream, every=0.0).update(STATE)
    assert stream.getvalue() == f"proving\n  {STATE}\n"


def test_a_terminal_shows_the_layers_being_measured() -> None:
    stream = io.StringIO()
    progress = TerminalProgress(Console(file=stream, force_terminal=True, width=120))
    progress.say("tuning [3 layers]")
    progress.update(STATE)
    progress.close()
    shown = stream.getvalue()
    assert "tuning [3 layers]" in shown  # no markup
    assert "measuring first, second, third" in shown and "fourth" not in shown


def test_the_stream_decides() -> None:
    assert isinstance(progress_for(io.StringIO()), PlainProgress)
