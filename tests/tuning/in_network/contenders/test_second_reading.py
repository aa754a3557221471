"""Plans that looked fast are read again, in every process, against the incumbent as it is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.contenders.second_reading import FINALISTS, faster_again
from tvm_neocpu.tuning.in_network.processes.workers import INCUMBENT, STAND_IN
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.measuring.child_process import ChildDied, ChildError

OURS = Plan("net", {}, method="ours")


def plan(name: str) -> Plan:
    return replace(OURS, method=name)


class Crew:
    """Two processes; a plan takes a ratio of its own in each, ``None`` where it dies."""

    baseline = 5e-3

    def __init__(self, **ratios: tuple[float | None, float]) -> None:
        self.ratios, self.built = ratios, []

    def __len__(self) -> int:
        return 2

    def build(self, plans: list[Plan], views: bool) -> list[ChildError | None]:
        (self.name,) = {each.method for each in plans}
        self.built.append(self.name)
        assert len(plans) == 2 and not views
        return [None, None]

    def ask(self, index: int, name: str, slots: Any, turns: int) -> dict[str, list[float]]:
        assert name == "whole"
        ratio = self.ratios[self.name][index]
        if ratio is None:
            raise ChildDied("its process ended with code -11")
        return {INCUMBENT: [5e-3] * turns, STAND_IN: [5e-3 * ratio] * turns}


def contenders(*names: str) -> list[tuple[Ratio, Plan]]:
    return [(Ratio(-0.1, 0.01), plan(name)) for name in names]


def test_what_one_process_found_faster_another_must_too() -> None:
    """The incumbent lay badly in the first process."""
    crew: Any = Crew(lucky=(0.9, 1.11), fast=(0.96, 0.97), equal=(0.999, 0.998))
    ((ratio, best),) = faster_again(crew, OURS, contenders("lucky", "fast", "equal"))
    assert best.method == "fast"
    assert ratio.value == pytest.approx(math.sqrt(0.96 * 0.97))


def test_an_incumbent_with_groups_is_read_as_the_others_are() -> None:
    crew: Any = Crew(ours=(0.9, 0.92), same=(0.9, 0.92), fast=(0.88, 0.9), dies=(None, 0.5))
    grouped = replace(OURS, groups=(LayerGroup(("0", "1"), 2),))
    found = faster_again(crew, grouped, contenders("same", "dies", "fast"))
    assert [best.method for _, best in found] == ["dies", "fast"]
    assert found[1][0].value == pytest.approx(0.978, abs=1e-3)


def test_the_fastest_few_are_read() -> None:
    crew: Any = Crew(**{f"p{n}": (0.9 - n / 100, 0.9) for n in range(5)})
    found = faster_again(crew, OURS, contenders(*(f"p{n}" for n in range(5))))
    assert crew.built == [f"p{n}" for n in range(FINALISTS)]
    assert [best.method for _, best in found] == ["p2", "p1", "p0"]
    assert faster_again(crew, OURS, []) == []
