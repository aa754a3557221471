"""What a session believes: first readings are tickets, later ones count."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.rounds.board import FAILED_BEFORE, Board, Estimate, Seat
from tvm_neocpu.tuning.tuners.grid import GridTuner


def ratio(value: float, error: float = 0.002) -> Ratio:
    return Ratio(math.log(value), error)


@pytest.fixture
def seat(make_task, space) -> Seat:
    """The incumbent is the first config of the space; the layer takes a fifth of the network."""
    task = make_task()
    tuner = GridTuner(task.space, task.predicted)
    tuner.observe(space[0], 1e-3)
    return Seat(task, tuner, frozenset(space[:1]), 1e-3, 0.2)


def test_a_first_reading_does_not_count(seat, space) -> None:
    seat.hear(space[1], ratio(0.5))
    assert seat.best == 1.0
    assert seat.contender() == space[1]
    seat.hear(space[1], ratio(0.98))
    assert seat.estimates[space[1]].ratio.value == pytest.approx(0.98)
    assert seat.best == pytest.approx(0.98)


def test_a_blurred_reading_is_taken_again(seat, space) -> None:
    """As beside other processes: it teaches the tuner nothing, and settles nothing."""
    seat.asked = [space[1]]
    promise = seat.tuner.promise()
    assert not seat.hear(space[1], ratio(17.0, error=0.4))
    assert not seat.estimates
    assert seat.tuner.promise() == promise
    assert seat.asked == [space[1]]
    assert seat.hear(space[1], ratio(0.9))
    assert seat.estimates[space[1]].ratio.value == pytest.approx(0.9)
    assert seat.asked == []
    assert not seat.hear(space[1], ratio(0.3, error=0.4))
    assert not seat.estimates[space[1]].confirmed


def test_blurred_readings_count_together_on_a_machine_that_is_never_idle(seat, space) -> None:
    heard = [seat.hear(space[1], ratio(1.2, error=0.06)) for _ in range(3)]
    assert heard == [False, False, True]
    assert seat.estimates[space[1]].ratio.value == pytest.approx(1.2)
    assert not seat.blurred


def test_what_is_slower_is_not_looked_at_twice(seat, space) -> None:
    seat.hear(space[1], ratio(1.2))
    assert seat.contender() is None


def test_a_settled_leader_is_left_alone(seat, space) -> None:
    for _ in range(2):
        seat.hear(space[1], ratio(0.9))
    assert seat.estimates[space[1]].settled
    assert seat.contender() is None


def test_wishes_are_what_the_search_asked_then_contenders_then_hints(seat, space) -> None:
    seat.hear(space[1], ratio(0.8))
    seat.hints = (space[2], space[1])
    seat.asked = [space[3]]
    assert seat.wishes(4)[:3] == [space[3], space[1], space[2]]
    seat.hear(space[3], ratio(1.0))
    assert seat.asked == []


def test_a_failure_is_never_wished_for_again(seat, space) -> None:
    seat.asked = [space[1]]
    seat.fail(space[1], "crashed")
    assert space[1] not in seat.wishes(100)
    assert space[1] not in seat.spares(space)
    assert seat.knows(space[1])


def test_what_failed_before_the_session_is_not_counted(seat, space) -> None:
    seat.fail(space[1], FAILED_BEFORE)
    seat.fail(space[2], "crashed")
    assert Board({seat.workload: seat}, 5e-3).failed == 1


def test_a_layer_that_hardly_counts_is_settled_without_measuring(seat) -> None:
    assert not seat.settled
    seat.weight = 1e-4
    assert seat.settled


def test_a_closed_seat_opens_when_the_search_asks(seat, space) -> None:
    seat.closed = True
    assert seat.settled
    seat.asked = [space[5]]
    assert not seat.settled


def test_a_layer_that_hardly_counts_promises_no_less_of_its_own_time(seat) -> None:
    promised = seat.promised()
    seat.weight = 1e-4
    assert seat.settled and seat.settled_for_good
    assert seat.promised() == promised > 0.0


def test_a_closed_seat_promises_what_was_left_when_it_was_closed(seat) -> None:
    seat.closed, seat.doubt = True, 0.003
    assert seat.promised() == 0.003


def test_what_a_limit_of_candidates_ends_is_not_settled_for_good(seat, space) -> None:
    seat.trials = 1
    seat.hear(space[1], ratio(1.2))
    board = Board({seat.workload: seat}, 5e-3)
    assert seat.settled and not seat.settled_for_good
    assert board.open == [] and board.not_settled == 1
    seat.weight = 1e-4
    assert seat.settled_for_good and board.not_settled == 0


def test_the_board_adds_up_what_is_confirmed(seat, space) -> None:
    board = Board({seat.workload: seat}, 5e-3)
    for _ in range(2):
        seat.hear(space[1], ratio(0.9))
    assert board.gain == pytest.approx(0.2 * 0.1)
    assert board.measured == 1


def test_resumed_ratios_are_confirmed_and_not_counted_as_measured(seat, space) -> None:
    seat.estimates[space[2]] = Estimate([ratio(0.95)], resumed=True)
    assert seat.best == pytest.approx(0.95)
    assert Board({seat.workload: seat}, 5e-3).measured == 0


def test_a_first_reading_of_an_earlier_session_asks_for_another_one(seat, space) -> None:
    seat.estimates[space[2]] = Estimate([ratio(0.8)], resumed=True, before=1)
    assert seat.best == 1.0
    assert seat.contender() == space[2]
    seat.hear(space[2], ratio(0.97))
    assert seat.best == pytest.approx(0.97)
    assert seat.estimates[space[2]].count == 2
    assert Board({seat.workload: seat}, 5e-3).measured == 0


def test_no_more_candidates_than_the_limit(seat, space) -> None:
    seat.trials = 2
    seat.hear(space[1], ratio(1.1))
    assert len(seat.wishes(9)) == 1
    seat.hear(space[2], ratio(1.2))
    assert seat.wishes(9) == []
    assert seat.settled


def test_an_exhaustive_seat_is_settled_when_all_was_measured(seat, space) -> None:
    seat.exhaustive, seat.weight = True, 1e-6
    for config in space[1:]:
        assert not seat.settled
        seat.hear(config, ratio(1.5))
    assert seat.settled
