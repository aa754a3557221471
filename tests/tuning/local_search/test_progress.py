"""What a session prints, on a terminal and elsewhere."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.local_search.progress import (
    PlainProgress,
    TaskResult,
    TuningResult,
    last_line,
    task_text,
)
from tvm_neocpu.tuning.local_search.terminal_progress import TerminalProgress, progress_for


@pytest.fixture
def result(conv, make_record, space) -> TaskResult:
    best = make_record(space[0], 1e-3)
    return TaskResult("conv [a]", conv, 24, best, measured=8, failed=2, resumed=4)


def tell(progress, result, record) -> None:
    progress.begin([replace(result, best=None, measured=0, failed=0)])
    progress.measured(result, record, 75.0)
    progress.measured(result, replace(record, costs=(), error_no=4), None)
    progress.task_done(result, "all tried")
    progress.end(TuningResult((result,), 3723.4))


def test_plain_lines_have_no_control_characters(result) -> None:
    stream = io.StringIO()
    tell(PlainProgress(stream, every=0.0), result, result.best)
    lines = stream.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert lines[0] == "tuning 1 task, at most 20 candidates, 4 known from the log"
    assert "best 231.2 GFLOP/s (1 ms), 2 failed, current 231.2, 1:15 left" in lines[1]
    assert lines[3].endswith("(all tried)")
    assert lines[4] == "done: 8 measured, 2 of them failed, 4 resumed from the log, 1:02:03"


def test_plain_lines_are_few(result) -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.begin([result])
    for _ in range(100):
        progress.measured(result, result.best, None)
    assert len(stream.getvalue().splitlines()) == 1


def test_a_terminal_gets_a_bar_and_a_line_for_each_task(result) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    tell(TerminalProgress(console), result, result.best)
    text = stream.getvalue()
    assert "conv [a]: 12/24, best 231.2 GFLOP/s" in text
    assert "done: 8 measured" in text
    assert "\x1b[" in text


def test_a_phase_is_a_line_of_its_own(result) -> None:
    plain = io.StringIO()
    PlainProgress(plain).phase("round 1")
    assert plain.getvalue() == "round 1\n"
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=120)
    TerminalProgress(console).phase("round 1 [of 8]")
    assert "round 1 [of 8]" in terminal.getvalue()


def test_a_second_session_draws_one_bar_only(result) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    progress = TerminalProgress(console)
    tell(progress, result, result.best)
    first = stream.tell()
    progress.phase("round 1")
    progress.begin([replace(result, planned=40, measured=0)])
    progress.measured(result, result.best, None)
    progress.end(TuningResult((result,), 1.0))
    stream.seek(first)
    text = stream.read()
    assert " 5/40" in text
    assert "6/12" not in text


def test_ending_without_a_beginning_is_fine(result) -> None:
    stream = io.StringIO()
    TerminalProgress(Console(file=stream, force_terminal=True)).end(TuningResult((), 0.0))
    assert "done: 0 measured" in stream.getvalue()


def test_the_stream_decides() -> None:
    assert isinstance(progress_for(io.StringIO()), PlainProgress)


def test_how_it_ended_comes_first(result) -> None:
    assert str(TuningResult((result,), 5, interrupted=True)).startswith("interrupted:")
    assert str(TuningResult((result,), 5, out_of_time=True)).startswith("time is up:")


def test_a_task_where_nothing_works_says_why(result) -> None:
    hopeless = replace(result, best=None, error="Traceback\n  File\nValueError: no\x1b such tile\n")
    assert task_text(hopeless).endswith("none works, 2 failed (ValueError: no such tile)")


def test_a_layout_transform_has_no_gflops(result, make_record) -> None:
    move = TransformWorkload(1, 64, 56, 56, 16, 32)
    best = make_record(TransformConfig(), 2e-5, workload=move)
    assert task_text(replace(result, best=best, failed=0)) == "conv [a]: 12/24, 0.02 ms"


@pytest.mark.parametrize(("error", "line"), [("", ""), ("a\nb\n\n", "b"), ("x" * 500, "x" * 160)])
def test_the_last_line_says_what_happened(error, line) -> None:
    assert last_line(error) == line
