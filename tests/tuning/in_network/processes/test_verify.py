"""The proof: what counts as faster, and who is to blame for a wrong answer."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.in_network.contenders.proofs import Proofs
from tvm_neocpu.tuning.in_network.processes.verify import (
    Pair,
    Proof,
    find_wrong,
    find_wrong_groups,
    is_clear,
    prove,
)
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.progress import Progress
from tvm_neocpu.tuning.in_network.rounds.board import Board
from tvm_neocpu.tuning.measuring.child_process import ChildDied

WORKLOADS = [ConvWorkload(1, 8 * n, 14, 14, 64, (1, 1)) for n in range(1, 8)]
NODES = tuple(
    GraphNode(str(n), NodeKind.CONV, str(n), (1, 64, 14, 14), workload)
    for n, workload in enumerate(WORKLOADS)
)
GRAPH = ConvGraph(NODES, ())
OLD, NEW = ConvConfig(8, 8, 2), ConvConfig(8, 16, 7)


def plan(new: set[int]) -> Plan:
    return Plan(GRAPH.hash, {str(n): NEW if n in new else OLD for n in range(len(NODES))})


class FakeNetwork:
    """Its output is off where the layer ``culprit`` has the new config."""

    def __init__(self, culprit: int | None) -> None:
        self.culprit, self.builds = culprit, 0

    def __call__(self, built: Plan) -> list[np.ndarray]:
        self.builds += 1
        wrong = self.culprit is not None and built.configs[str(self.culprit)] == NEW
        return [np.ones(4) + wrong]


@pytest.mark.parametrize("culprit", [0, 3, 6])
def test_the_wrong_candidate_is_found(culprit: int) -> None:
    network = FakeNetwork(culprit)
    found = find_wrong(network, GRAPH, plan(set()), plan(set(range(7))))
    assert found == [(WORKLOADS[culprit], NEW)]
    assert network.builds <= 5  # what is right, halving, a check


def test_nobody_is_blamed_if_nobody_is_wrong_alone() -> None:
    assert find_wrong(FakeNetwork(None), GRAPH, plan(set()), plan({1, 2})) == []


@pytest.mark.parametrize(
    ("log", "error", "clear"),
    [
        (-0.05, 0.01, True),
        (0.05, 0.01, True),
        (-0.02, 0.01, False),
        (0.0, 0.001, True),
        (0.006, 0.005, True),  # equal or slower: it is not faster
        (-0.008, 0.004, False),
        (-0.008, 0.003, True),  # another pair differs by 1 %
    ],
)
def test_turns_go_on_until_it_is_clear(log: float, error: float, clear: bool) -> None:
    assert is_clear(Ratio(log, error)) == clear


def test_wrong_is_never_faster() -> None:
    fast = Ratio(-0.2, 0.001)
    assert Proof(fast, 1e-6, 1.0, 0.8).faster
    assert not Proof(fast, 0.1, 1.0, 0.8).faster
    assert not Proof(fast, float("inf"), 1.0, 0.8).faster
    assert not Proof(Ratio(-0.01, 0.01), 0.0, 1.0, 0.99).faster


class Steady:
    """Takes the same time in each run, and is right."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def outputs(self) -> list[np.ndarray]:
        return [np.ones(4)]

    def burst(self, count: int) -> list[float]:
        return [self.seconds] * count


@pytest.mark.parametrize(
    ("ratios", "opened", "faster"),
    [
        ((0.97, 0.975, 0.97), 3, True),
        ((0.98, 0.99, 0.96), 3, False),  # processes differ by as much
        ((0.987, 0.986, 0.988), 3, False),  # equal builds agree like this by chance
        ((0.97, 1.01), 2, False),
        ((1.0,), 1, False),
        ((1.02,), 1, False),
    ],
)
def test_what_one_pair_shows_others_confirm(
    ratios: tuple[float, ...], opened: int, faster: bool
) -> None:
    left = list(ratios)

    def open_pair() -> AbstractContextManager[Pair]:
        return nullcontext((Steady(0.1), Steady(0.1 * left.pop(0))))

    proof = prove(open_pair, seconds=0.0)
    assert len(ratios) - len(left) == opened
    assert proof.faster == faster
    assert min(ratios) <= proof.ratio.value <= max(ratios) + 1e-9


@pytest.mark.parametrize(
    ("ratio", "opened", "faster"),
    [
        (0.987, 6, True),
        (0.990, 6, False),
        (0.992, 4, False),  # two more would have to show 2 % each
        (0.995, 3, False),
    ],
)
def test_a_small_gain_needs_more_pairs_and_time(ratio: float, opened: int, faster: bool) -> None:
    count = 0

    def open_pair() -> AbstractContextManager[Pair]:
        nonlocal count
        count += 1
        return nullcontext((Steady(0.1), Steady(0.1 * ratio)))

    assert prove(open_pair, seconds=600.0).faster == faster
    assert count == opened


@pytest.mark.parametrize("alive", [0, 1, 2, 3, 5])
def test_a_pair_that_dies_behind_the_third_one_leaves_the_others(alive: int) -> None:
    """Three pairs would have been enough for a gain that is clear, so that none is proven."""
    count = 0

    def open_pair() -> AbstractContextManager[Pair]:
        nonlocal count
        count += 1
        if count > alive:
            raise ChildDied("its process ended with code -9")
        return nullcontext((Steady(0.1), Steady(0.1 * 0.99)))

    if alive < 3:
        with pytest.raises(ChildDied):
            prove(open_pair, seconds=600.0)
        return
    proof = prove(open_pair, seconds=600.0)
    assert count == alive + 1
    assert not proof.faster
    assert proof.ratio.value == pytest.approx(0.99)


class Dying:
    """A site on which the proof of every plan but ``faster`` dies."""

    def __init__(self, faster: Plan | None) -> None:
        self.faster = faster

    def prove(self, network: object, plans: tuple[Plan, Plan], *_: object) -> Proof:
        if plans[1] != self.faster:
            raise ChildDied("its process ended with code -11")
        return Proof(Ratio(-0.2, 0.001), 0.0, 1.0, 0.8)


@pytest.mark.parametrize("rescued", [True, False])
def test_a_contender_that_dies_in_its_proof_is_not_used(rescued: bool) -> None:
    """The session goes on with the next one, and writes its verdict."""
    said: list[str] = []
    progress = SimpleNamespace(say=said.append)
    plans = [plan({1}), plan({2})]
    site: Any = Dying(plans[1] if rescued else None)
    proofs = Proofs(
        GRAPH, Board({}, 1.0), plan(set()), site, Any, 1, Any, Any, cast("Progress", progress)
    )
    found = [(Ratio(-0.1, 0.01), each) for each in plans]
    proof, chosen = proofs.first_faster(found, lambda: 100.0, 1.0)
    assert (proof is not None) == rescued
    assert chosen.configs == (plans[1] if rescued else plan(set())).configs
    assert sum("ended with code -11" in text for text in said) == (1 if rescued else 2)


class Wrong(Dying):
    """A site on which the first plan is wrong, and what looks for the reason dies."""

    def prove(self, network: object, plans: tuple[Plan, Plan], *rest: object) -> Proof:
        if plans[1] == self.faster:
            return super().prove(network, plans, *rest)
        return Proof(Ratio(-0.2, 0.001), 1.0, 1.0, 0.8)

    def computing(self, *_: object) -> AbstractContextManager[Any]:
        raise ChildDied("its process ended with code -9")


def test_the_search_for_a_wrong_layer_may_die() -> None:
    """It ended the session, and with it the proof of the next plan."""
    said: list[str] = []
    progress = SimpleNamespace(say=said.append)
    plans = [plan({1}), plan({2})]
    site: Any = Wrong(plans[1])
    proofs = Proofs(
        GRAPH, Board({}, 1.0), plan(set()), site, Any, 1, Any, Any, cast("Progress", progress)
    )
    found = [(Ratio(-0.1, 0.01), each) for each in plans]
    proof, chosen = proofs.first_faster(found, lambda: 100.0, 1.0)
    assert proof is not None and chosen.configs == plans[1].configs
    assert any("was not found: its process ended with code -9" in text for text in said)


class Slower:
    """A site on which every plan is slower, each by a ratio of its own."""

    def __init__(self, *logs: float) -> None:
        self.logs = list(logs)

    def prove(self, *_: object) -> Proof:
        return Proof(Ratio(self.logs.pop(0), 0.001), 0.0, 1.0, 1.0)


def test_the_best_of_the_plans_that_were_not_proven_is_told() -> None:
    """The verdict speaks of the best other plan; it told the last one, 1.3 times as slow."""
    progress = SimpleNamespace(say=lambda text: None)
    site: Any = Slower(0.02, 0.01, 0.3)
    proofs = Proofs(
        GRAPH, Board({}, 1.0), plan(set()), site, Any, 1, Any, Any, cast("Progress", progress)
    )
    found = [(Ratio(-0.1, 0.01), plan({each})) for each in (1, 2, 3)]
    proof, chosen = proofs.first_faster(found, lambda: 100.0, 1.0)
    assert proof is not None
    assert proof.ratio.log == 0.01
    assert chosen.configs == plan(set()).configs


def test_no_plan_is_proven_that_falls_short_as_others_did() -> None:
    """MNASNet: seven plans believed 1.00 to 1.05 times as fast were proven one by one, in 141 s."""
    progress = SimpleNamespace(say=lambda text: None)
    site: Any = Slower(0.02, 0.01, 0.3)
    proofs = Proofs(
        GRAPH, Board({}, 1.0), plan(set()), site, Any, 1, Any, Any, cast("Progress", progress)
    )
    found = [(Ratio(log, 0.003), plan({n})) for n, log in enumerate((-0.04, -0.033, -0.02))]
    proof, _ = proofs.first_faster(found, lambda: 100.0, 1.0)
    assert proof is not None and proof.ratio.log == 0.02
    assert site.logs == [0.01, 0.3]


GROUPS = tuple(LayerGroup((str(n), str(n + 1)), 2) for n in (0, 2, 4))


@pytest.mark.parametrize("culprit", GROUPS)
def test_the_wrong_group_is_found(culprit: LayerGroup) -> None:
    """Its layers are right one by one."""

    def compute(built: Plan) -> list[np.ndarray]:
        return [np.ones(4) + (culprit in (built.groups or ()))]

    wrong = replace(plan({1, 2}), groups=GROUPS)
    assert find_wrong_groups(compute, plan(set()), wrong) == (culprit,)


def test_no_group_is_blamed_where_a_layer_is_wrong() -> None:
    network = FakeNetwork(2)
    wrong = replace(plan({1, 2}), groups=GROUPS)
    assert find_wrong_groups(network, plan(set()), wrong) == ()
    assert find_wrong(network, GRAPH, plan(set()), wrong) == [(WORKLOADS[2], NEW)]
