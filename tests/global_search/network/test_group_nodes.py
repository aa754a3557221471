"""Groups in the layout problem: chosen where they gain, with the schemes with which they do."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layer_group import GroupCandidate, GroupNode, LayerGroup
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search.network.choose import choose_layouts, plan_of, solution_of
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
NAMES = ("a", "b", "c")
BLOCKS = (4, 8, 16)


def workload(name: str) -> ConvWorkload:
    return ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform(name))


GRAPH = ConvGraph(
    tuple(GraphNode(name, NodeKind.CONV, name, SHAPE, workload(name)) for name in NAMES),
    tuple(GraphEdge(src, dst, SHAPE, src) for src, dst in itertools.pairwise(NAMES)),
)


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0 if before == after else 3.0


def config(block: int) -> ConvConfig:
    return ConvConfig(block, block, 1)


def schemes(costs: list[list[int]]) -> dict[Workload, tuple[Candidate, ...]]:
    """For each layer the seconds of its schemes in blocks of 4, 8 and 16."""
    return {
        workload(name): tuple(
            Candidate(config(b), float(s)) for b, s in zip(BLOCKS, row, strict=True)
        )
        for name, row in zip(NAMES, costs, strict=True)
    }


def group(members: str, *gains: tuple[int, int, float]) -> GroupNode:
    """(block, rows, gain) of every candidate; all members take that block."""
    return GroupNode(
        tuple(members),
        tuple(
            GroupCandidate(tuple(config(block) for _ in members), rows, gain)
            for block, rows, gain in gains
        ),
    )


EVEN = schemes([[5, 5, 5]] * 3)


def test_a_group_decides_the_schemes_of_its_members() -> None:
    pair = group("ab", (4, 2, 1.0), (8, 7, 2.0))
    plan = choose_layouts(GRAPH, EVEN, price, groups=[pair])
    assert plan.groups == (LayerGroup(("a", "b"), 7),)
    assert (plan.configs["a"], plan.configs["b"]) == (config(8), config(8))
    assert (plan.seconds, plan.optimal) == (13.0, True)


def test_a_group_whose_schemes_cost_more_than_it_gains_stays_apart() -> None:
    slow = schemes([[5, 9, 5], [5, 5, 5], [5, 5, 5]])
    plan = choose_layouts(GRAPH, slow, price, groups=[group("ab", (8, 7, 3.5))])
    assert (plan.groups, plan.seconds) == ((), 15.0)


def test_without_groups_nothing_changes() -> None:
    assert choose_layouts(GRAPH, EVEN, price).groups == ()


@pytest.mark.parametrize("members", ["ab", "abc"])
def test_a_plan_with_groups_is_found_again(members: str) -> None:
    found = build_layout_graph(
        GRAPH, EVEN, price, groups=[group(members, (4, 2, 1.0), (8, 7, 2.0))]
    )
    solution = solve(found.problem)
    plan = plan_of(found, solution)
    again = solution_of(found, plan, solution)
    assert again is not None and again.choice == solution.choice
    # Other rows are no candidate; a plan that decided nothing takes the best.
    odd = replace(plan, groups=(LayerGroup(tuple(members), 3),))
    assert solution_of(found, odd, solution) is None
    open_ = solution_of(found, replace(plan, groups=None), solution)
    assert open_ is not None and open_.cost == solution.cost
    apart = solution_of(found, replace(plan, groups=()), solution)
    assert apart is not None and apart.cost == solution.cost + 2.0


COSTS = st.lists(st.lists(st.integers(10, 19), min_size=3, max_size=3), min_size=3, max_size=3)
GAINS = st.lists(
    st.tuples(st.sampled_from(BLOCKS), st.integers(1, 3), st.integers(1, 9)), max_size=4
)


@given(costs=COSTS, first=GAINS, second=GAINS)
@settings(max_examples=examples(60))
def test_no_choice_of_schemes_and_groups_is_cheaper(
    costs: list[list[int]], first: list[tuple[int, int, int]], second: list[tuple[int, int, int]]
) -> None:
    """Two groups that share no layer; brute force takes the best gain of each pair of blocks."""
    groups = [group("ab", *((b, r, float(g)) for b, r, g in first))]
    groups += [group("c", *((b, r, float(g)) for b, r, g in second))]

    def gain(of: list[tuple[int, int, int]], *blocks: int) -> int:
        return max((g for b, _, g in of if {b} == set(blocks)), default=0)

    def total(choice: tuple[int, ...]) -> float:
        own = sum(row[BLOCKS.index(b)] for row, b in zip(costs, choice, strict=True))
        moves = sum(3 for x, y in itertools.pairwise(choice) if x != y)
        return own + moves - gain(first, *choice[:2]) - gain(second, choice[2])

    best = min(map(total, itertools.product(BLOCKS, repeat=3)))
    plan = choose_layouts(GRAPH, schemes(costs), price, groups=groups)
    assert plan.seconds == pytest.approx(best)
    assert plan.optimal


def part(members: str, block: int, gain: float, run: int = 1) -> GroupCandidate:
    """Some of the layers "abc" as a group, in that block."""
    configs = tuple(config(block) if name in members else None for name in NAMES)
    return GroupCandidate(configs, 2, gain, run)


def test_chains_that_overlap_are_chosen_once() -> None:
    """A layer that is outside of the group takes any scheme."""
    chains = GroupNode(("a", "b", "c"), (part("ab", 4, 4.0), part("bc", 8, 4.5, run=3)))
    cheap = schemes([[5, 5, 1], [5, 5, 5], [5, 5, 5]])
    found = build_layout_graph(GRAPH, cheap, price, groups=[chains])
    solution = solve(found.problem)
    plan = plan_of(found, solution)
    assert plan.groups == (LayerGroup(("b", "c"), 2, 3),)
    assert [plan.configs[name].oc_bn for name in NAMES] == [16, 8, 8]  # type: ignore[attr-defined]
    assert plan.seconds == 1 + 3 + 10 - 4.5
    again = solution_of(found, plan, solution)
    assert again is not None and again.choice == solution.choice
    other = replace(plan, groups=(LayerGroup(("b", "c"), 2, 1),))
    assert solution_of(found, other, solution) is None
    apart = solution_of(found, replace(plan, groups=()), solution)
    assert apart is not None and apart.cost == solution.cost + 4.5
