"""Which layers may become a group with their pool, and what the cost model says they gain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.contrib.explain.cells import group_rows
from tvm_neocpu.core.machine.cpu import AVX2, AVX512, KIB, NEON, Cpu, Isa
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import (
    ConvGraph,
    GraphEdge,
    GraphNode,
    NodeKind,
    RowWindow,
    Sweep,
    SweepKind,
)
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.folded_network import FoldedNetwork
from tvm_neocpu.global_search.network.choose import choose_layouts, plan_of, solution_of
from tvm_neocpu.global_search.network.explain import explain
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.pool_cost import (
    MARGIN,
    apart_seconds,
    best_group,
    predict_seconds,
)
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.group_candidates import groups_of, with_doubtful_groups, with_groups
from tvm_neocpu.tuning.in_network.contenders.measured_groups import TimedPlan, faster_groups
from tvm_neocpu.tuning.pool_candidates import pool_behind
from tvm_neocpu.tuning.sweep_costs import SweepCosts
from tvm_neocpu.tuning.transform_costs import TransformCosts
from tvm_neocpu.tuning.tune_network import TuningSession

ZEN4 = Cpu("znver4", AVX512, cores=1, l2=1024 * KIB, l3=32 * 1024 * KIB, ghz=3.2)
# Its pool waits for L3: the model's gain is larger than its error.
SLOW_L3 = replace(ZEN4, l3_bytes_per_cycle=2.0)
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))
CONFIG = WinogradConfig(0, 8, 4, 14)
OVER_CHANNELS = replace(CONFIG, parallel_oc=True)
POOL = Sweep(SweepKind.POOL, (STEM.out_shape,), (1, 64, 56, 56), 9, window=RowWindow(3, 2, 1))


def graph(*readers: str, pool: Sweep = POOL) -> ConvGraph:
    """A stem, its pool, a boundary behind that, and whoever else reads the stem."""
    nodes = (
        GraphNode("stem", NodeKind.CONV, "", STEM.out_shape, STEM, sweeps=(pool,)),
        GraphNode("end", NodeKind.BOUNDARY, "", pool.output),
        *(GraphNode(name, NodeKind.BOUNDARY, "", STEM.out_shape) for name in readers),
    )
    others = tuple(GraphEdge("stem", name, STEM.out_shape, "y") for name in readers)
    return ConvGraph(nodes, (GraphEdge("stem", "end", pool.output, "z"), *others))


def offered(of: ConvGraph, cpu: Cpu = ZEN4) -> list[tuple[object, int, float]]:
    schemes = {STEM: (Candidate(CONFIG, 2e-3), Candidate(OVER_CHANNELS, 1e-3))}
    return [(c.configs, c.rows, c.gain) for g in groups_of(of, schemes, cpu) for c in g.candidates]


def test_a_stem_and_its_pool_are_offered_with_schemes_that_chunk_rows() -> None:
    ((configs, rows, gain),) = offered(graph())
    layer = Member(STEM, CONFIG)
    group = best_group(layer, POOL, ZEN4)
    assert group is not None
    assert (configs, rows) == ((CONFIG,), 56)
    share = 1 - predict_seconds(group, POOL, ZEN4) / apart_seconds(layer, POOL, ZEN4)
    assert gain == pytest.approx((share - MARGIN) * 2e-3)


@pytest.mark.parametrize(("cpu", "clear"), [(ZEN4, False), (SLOW_L3, True)])
def test_a_gain_within_the_models_error_is_taken_by_measurement_alone(
    cpu: Cpu, clear: bool
) -> None:
    group = LayerGroup(("stem",), 56)
    ((_, _, gain),) = offered(graph(), cpu)
    assert (gain > 0) == clear
    schemes = {STEM: (Candidate(CONFIG, 2e-3),)}
    costs = TransformCosts(cpu), SweepCosts(cpu)
    groups = groups_of(graph(), schemes, cpu)
    chosen = choose_layouts(graph(), schemes, *costs, groups=groups)
    assert chosen.groups == (group,) * clear
    silent = with_groups(Plan(graph().hash, {"stem": CONFIG}), graph(), cpu)
    assert silent.groups == (group,) * clear
    for plan in (chosen, silent):
        assert with_doubtful_groups(plan, graph(), cpu).groups == (group,)


def test_no_group_where_something_else_reads_the_layer_or_the_ring_outgrows_l2() -> None:
    assert offered(graph("skip")) == []
    assert offered(graph(), replace(ZEN4, l2=512 * KIB)) == []
    assert offered(graph(pool=replace(POOL, kind=SweepKind.MOVE))) == []
    assert offered(graph(pool=replace(POOL, window=None))) == []


def test_two_cores_do_not_pay_for_the_halo_between_them() -> None:
    """A row of tiles for each band beyond the first: 15 chunks instead of 14."""
    assert offered(graph(), replace(ZEN4, cores=2)) == []
    no_halo = replace(POOL, window=RowWindow(2, 2, 0), taps=4)
    ((_, rows, _),) = offered(graph(pool=no_halo), replace(ZEN4, cores=2))
    assert rows == 28


@pytest.mark.parametrize(
    ("isa", "l2", "fits"), [(AVX2, 512, False), (AVX512, 1024, True), (NEON, 1024, True)]
)
def test_a_private_l2_of_512_kib_holds_no_ring_beside_a_stem(isa: Isa, l2: int, fits: bool) -> None:
    """Zen 3; Zen 4, Zen 5 and Skylake-X; Neoverse N1."""
    assert bool(offered(graph(), replace(ZEN4, isa=isa, l2=l2 * KIB))) == fits


def test_only_a_plan_that_says_nothing_of_groups_gets_the_models() -> None:
    silent = Plan(graph().hash, {"stem": CONFIG})
    assert with_groups(silent, graph(), SLOW_L3).groups == (LayerGroup(("stem",), 56),)
    other = replace(silent, configs={"stem": OVER_CHANNELS})
    assert with_groups(other, graph(), SLOW_L3).groups == ()
    assert with_doubtful_groups(other, graph(), SLOW_L3).groups == ()
    apart = replace(silent, groups=())
    assert with_groups(apart, graph(), SLOW_L3) is apart


def test_the_tuner_times_plans_with_doubtful_groups(tmp_path: Path) -> None:
    apart = Plan(graph().hash, {"stem": CONFIG}, groups=())
    known, log = History(ZEN4.name, ZEN4.cores), TuningLog(tmp_path / "stem.log")
    session = TuningSession(graph(), ZEN4, _no_network, lambda _: apart, apart, known, log)
    for plan in (session._search_records([]), session._regrouped(apart)):
        assert plan.groups == (LayerGroup(("stem",), 56),)


def test_a_tuned_plan_keeps_its_doubtful_group_and_is_explained() -> None:
    schemes = {STEM: (Candidate(CONFIG, 2e-3),)}
    costs = TransformCosts(ZEN4), SweepCosts(ZEN4)
    groups = groups_of(graph(), schemes, ZEN4)
    layout_graph = build_layout_graph(graph(), schemes, *costs, groups=groups)
    best = solve(layout_graph.problem)
    tuned = Plan(graph().hash, {"stem": CONFIG}, groups=(LayerGroup(("stem",), 56),))
    assert with_groups(tuned, graph(), ZEN4) is tuned
    found = solution_of(layout_graph, tuned, best)
    assert found is not None
    assert plan_of(layout_graph, found).groups == tuned.groups
    ((name, bands, gain, if_apart),) = group_rows(explain(layout_graph, found, set()))
    assert name.endswith(" -> pool")
    assert bands == words.bands(56, 1)
    assert float(gain.removeprefix(words.GUESSED)) < 0
    assert float(if_apart) < 0


def _no_network() -> FoldedNetwork:
    raise AssertionError("nothing is built")


def test_a_group_is_compared_with_its_layer_and_the_pool() -> None:
    plan = Plan(graph().hash, {"stem": CONFIG}, groups=(LayerGroup(("stem",), 56),))
    pool = pool_behind(STEM, CONFIG, graph())
    assert pool is not None
    assert str(pool[0]) == "pool of 9 64x112x112 -> 64x56x56 NCHW8c"

    def timed(run: dict) -> TimedPlan:
        return TimedPlan(plan, [run] * 3, [{None: 100.0}] * 3)

    apart = timed({(STEM, CONFIG): 10.0, pool: 2.0})
    assert faster_groups(timed({((STEM, CONFIG),): 11.0}), apart, graph()) == plan.groups
    assert faster_groups(timed({((STEM, CONFIG),): 12.5}), apart, graph()) == ()
