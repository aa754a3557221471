"""How a session divides its budget over the tasks."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.tuning.local_search.budget import Limits, TaskState, affordable, most_urgent
from tvm_neocpu.tuning.local_search.progress import TaskResult
from tvm_neocpu.tuning.tuners import GridTuner


@pytest.fixture
def make_state(make_task):
    def make(name="conv", planned=24, **fields):
        task = make_task(name, **fields)
        favourite = min(task.space, key=task.predicted)
        result = TaskResult(name, task.workload, planned)
        return TaskState(task, GridTuner(task.space, task.predicted), favourite, result)

    return make


@pytest.mark.parametrize(
    ("limits", "planned"),
    [
        (Limits(), 24),
        (Limits(trials=5), 5),
        (Limits(trials=100), 24),
        (Limits(trials=9, total_trials=4), 4),
        (Limits(trials=0), 0),
    ],
)
def test_limits_bound_what_is_planned(limits, planned) -> None:
    assert limits.planned(24) == planned


def test_a_task_weighs_its_occurrences_times_its_seconds(make_state, make_record) -> None:
    once, thrice = make_state(), make_state(occurrences=3)
    assert thrice.weight == pytest.approx(3 * once.weight)
    once.hear(make_record(once.task.space[0], 2.0), "")
    assert once.weight == 2.0


def test_batches_come_in_proportion_to_weight(make_state) -> None:
    states = [make_state("light"), make_state("heavy", occurrences=3)]
    order = []
    for _ in range(8):
        state = most_urgent(states)
        order.append(state.task.name)
        state.batches += 1
    assert order[0] == "heavy"
    assert order.count("heavy") == 6


def test_finished_tasks_are_not_urgent(make_state) -> None:
    state = make_state()
    state.done = "done"
    assert most_urgent([state]) is None
    assert most_urgent([]) is None


def test_a_task_ends_after_batches_without_an_improvement(make_state, make_record, space) -> None:
    state = make_state()
    state.hear(make_record(space[0], 1e-3), "")
    state.end_batch(math.inf, patience=2)
    state.hear(make_record(space[1], 0.9999e-3), "")
    state.end_batch(1e-3, patience=2)
    assert not state.done
    state.end_batch(state.best_seconds, patience=2)
    assert state.done == "no better in 2 batches"


def test_without_patience_a_task_goes_on(make_state) -> None:
    state = make_state()
    for _ in range(50):
        state.end_batch(1e-3, patience=None)
    assert not state.done


def test_results_count_what_was_heard_and_resumed(make_state, make_record, space) -> None:
    state = make_state()
    state.resume(make_record(space[0], 2e-3))
    state.hear(make_record(space[1], costs=(), error_no=2), "ValueError: no")
    state.hear(make_record(space[2], 1e-3), "")
    result = state.result
    assert (result.resumed, result.measured, result.failed, result.known) == (1, 2, 1, 3)
    assert result.best.config == space[2]
    assert result.error == "ValueError: no"
    assert state.left == 21
    assert not set(state.tuner.propose(24)) & set(space[:3])


@pytest.mark.parametrize(
    ("wanted", "left", "each", "count"),
    [(16, math.inf, 2.0, 16), (16, 10.0, 2.0, 5), (16, 1.0, 2.0, 1), (16, 10.0, 0.0, 16)],
)
def test_a_batch_shrinks_to_what_time_allows(wanted, left, each, count) -> None:
    assert affordable(wanted, left, each) == count
