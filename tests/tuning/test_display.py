"""What all displays share."""

from __future__ import annotations

import io

import pytest

from tvm_neocpu.tuning.display import PlainLines, clock_text, terminal_on


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0:00"), (0, "0:00"), (59.9, "0:59"), (75.2, "1:15"), (3723, "1:02:03")],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_a_line_is_due_when_nothing_was_said() -> None:
    often, seldom = PlainLines(io.StringIO(), 0.0), PlainLines(io.StringIO(), 3600.0)
    assert often.is_due and not seldom.is_due


def test_a_string_is_no_terminal() -> None:
    assert terminal_on(io.StringIO()) is None
