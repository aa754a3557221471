"""Seconds by phase, with a clock that the test moves."""

from __future__ import annotations

import pytest

from tvm_neocpu.tuning.in_network.report.spent import BUILD, SEARCH, TIME, ClockedCrew, Spent


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_phase_inside_another_counts_for_itself_alone(clock) -> None:
    spent = Spent(clock)
    with spent.on(SEARCH):
        clock.now += 1
        with spent.on(BUILD):
            clock.now += 10
        clock.now += 2
    clock.now += 50  # nobody's
    with spent.on(BUILD):
        clock.now += 5
    assert spent.seconds == {SEARCH: 3.0, BUILD: 15.0}


def test_a_phase_that_is_interrupted_counts(clock) -> None:
    spent = Spent(clock)
    with pytest.raises(KeyboardInterrupt), spent.on(SEARCH):
        clock.now += 4
        raise KeyboardInterrupt
    assert spent.seconds == {SEARCH: 4.0}


def test_a_crew_counts_what_it_builds_and_times(clock) -> None:
    class Crew:
        baseline = 0.5

        def __len__(self) -> int:
            return 3

        def build(self, plans, views):
            clock.now += 7
            return [None for _ in plans]

        def times(self, index, runs):
            clock.now += 2
            return {"incumbent": [{}] * runs}

        def ask(self, index, name, *arguments):
            clock.now += 1
            return name, arguments

    spent = Spent(clock)
    crew = ClockedCrew(Crew(), spent)
    assert (len(crew), crew.baseline) == (3, 0.5)
    assert crew.build(["plan"], True) == [None]
    assert crew.times(0, 2) == {"incumbent": [{}, {}]}
    assert crew.ask(1, "calls", "slot") == ("calls", ("slot",))
    assert spent.seconds == {BUILD: 7.0, TIME: 3.0}
