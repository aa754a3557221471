"""What a session keeps for its end, on an idle machine and on a busy one."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.tuning.in_network.contenders.reserve import Pace, Reserve, about_the_start


def test_without_a_budget_all_is_kept_and_nothing_said() -> None:
    reserve = Reserve.fitting(60.0, math.inf)
    assert reserve == Reserve(60.0)
    assert about_the_start(reserve, math.inf) == ""


def test_a_quick_start_leaves_all_that_the_end_needs() -> None:
    reserve = Reserve.fitting(5.0, 140.0)
    assert reserve.share == 1.0
    assert reserve.seconds == pytest.approx(5.0 * 3.8 + 16.0)
    assert about_the_start(reserve, 140.0) == ""


@pytest.mark.parametrize("left", [2.0, 30.0, 90.0])
def test_half_of_the_time_is_measured_however_long_the_start_was(left: float) -> None:
    reserve = Reserve.fitting(60.0, left)
    assert reserve.seconds == pytest.approx(left / 2)
    assert reserve.late == pytest.approx(60.0 * 3.8 + 16.0 - left / 2)
    assert f"up to {reserve.late:.0f} s after the budget" in about_the_start(reserve, left)


def test_a_start_that_took_the_whole_budget_is_told() -> None:
    reserve = Reserve.fitting(60.0, -12.0)
    assert reserve.seconds == 0.0
    assert about_the_start(reserve, -12.0) == (
        "starting took 12 s more than the whole budget: give a larger one"
    )


def test_what_does_not_fit_any_more_is_not_begun() -> None:
    left = iter([100.0, 40.0, 25.0, 5.0])  # they take 60, 15 and 20 s
    pace = Pace(lambda: next(left))
    assert [pace.allows() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(("left", "allowed"), [(0.1, True), (0.0, False), (-3.0, False)])
def test_the_first_is_begun_while_there_is_time(left: float, allowed: bool) -> None:
    assert Pace(lambda: left).allows() == allowed


def test_without_a_budget_there_is_always_time() -> None:
    pace = Pace(lambda: math.inf)
    assert pace.allows() and pace.allows()
