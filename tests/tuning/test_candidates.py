"""What the global search chooses among, when little, much or nothing but failures was measured."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace

import pytest

from tvm_neocpu.choose_plan import choose_plan, search_plan
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.network.candidate import Candidate, layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import (
    ConvGraph,
    GraphEdge,
    GraphNode,
    NodeKind,
    Sweep,
    SweepKind,
)
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.global_search.network.choose import choose_layouts
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.topi.cost.ranking import best_per_layout, predict_seconds, ranked
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning import candidates
from tvm_neocpu.tuning.candidates import UNMEASURED_PENALTY, candidates_of, usable_plan
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.log import LogContents, TuningLogWarning
from tvm_neocpu.tuning.transform_costs import TransformCosts

CPU = Cpu("testcpu", AVX512, 2)
CONV = ConvWorkload(1, 32, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1))
GRAPH = ConvGraph((GraphNode("a", NodeKind.CONV, "a", CONV.out_shape, CONV),), ())
PREDICTED = best_per_layout(CONV, CPU)
WORST = [candidate.config for candidate in ranked(CONV, CPU)[-6:]]


def took(config: Config, ratio: float) -> Record:
    """A measurement that took so many times what the model says."""
    return Record(CONV, config, (ratio * predict_seconds(CONV, config, CPU),), "testcpu", 2)


def failed(config: Config) -> Record:
    return Record(CONV, config, (), "testcpu", 2, error_no=4)


def schemes(*records: Record) -> tuple[Candidate, ...]:
    return candidates_of(GRAPH, CPU, {CONV: records})[CONV]


@pytest.mark.parametrize("reads_concat", [False, True])
def test_a_node_that_reads_a_concat_pays_for_the_copy(reads_concat: bool) -> None:
    conv = ConvWorkload(1, 1024, 64, 64, 256, (1, 1))
    concat = Sweep(SweepKind.MOVE, (conv.in_shape,), conv.in_shape)
    read = (concat,) if reads_concat else ()
    node = GraphNode("a", NodeKind.CONV, "a", conv.out_shape, conv, read_sweeps=read)
    (found,) = candidates_of(ConvGraph((node,), ()), CPU, {}).values()
    expected = best_per_layout(conv, CPU, computes_data=reads_concat)
    assert found[0] == expected[0]
    assert best_per_layout(conv, CPU) != best_per_layout(conv, CPU, computes_data=True)


def test_only_kernels_that_could_read_bf16_spend_time_on_rounding() -> None:
    cpu = replace(CPU, dots=(VDPBF16PS,))
    conv = replace(CONV, types=BF16_WEIGHTS)
    graph = ConvGraph((GraphNode("a", NodeKind.CONV, "a", conv.out_shape, conv),), ())
    (found,) = candidates_of(graph, cpu, {}).values()
    for scheme in found:
        reads_blocks = isinstance(scheme.config, Bf16Config) and scheme.reads.is_blocked
        assert (0 < scheme.rounding < 0.5 * scheme.seconds) == reads_blocks
    assert any(scheme.rounding for scheme in found)
    assert not any(scheme.rounding for scheme in schemes())


def test_what_nobody_measured_is_scaled_by_the_median_ratio() -> None:
    """The fastest record's own ratio is the lucky one: it made it the fastest."""
    best = PREDICTED[0].config
    records = [took(best, 0.6), *(took(config, 1.0) for config in WORST)]
    found = {scheme.config: scheme.seconds for scheme in schemes(*records)}
    known = {layouts_of(record.config) for record in records}
    guessed = [p for p in PREDICTED if layouts_of(p.config) not in known and p.config in found]
    assert guessed
    floor = records[0].seconds * UNMEASURED_PENALTY
    for candidate in guessed:
        assert found[candidate.config] == pytest.approx(max(floor, candidate.seconds))
        assert found[candidate.config] > 1.1 * candidate.seconds * 0.6


def test_a_measured_scheme_beats_one_that_the_model_prefers() -> None:
    measured = PREDICTED[-1].config
    assert schemes(took(measured, 1.0))[0].config == measured


def test_what_was_read_once_is_not_believed_to_beat_what_was_read_again() -> None:
    """The first reading of a candidate is the best of many: too good to be true."""
    layouts = {layouts_of(candidate.config): candidate.config for candidate in PREDICTED}
    sure, lucky = list(layouts.values())[:2]
    least = 2 * max(predict_seconds(CONV, config, CPU) for config in (sure, lucky))
    records = [
        Record(CONV, sure, (least,), "testcpu", 2, readings=2),
        Record(CONV, lucky, (0.5 * least, 0.6 * least, 0.7 * least), "testcpu", 2, readings=1),
    ]
    found = {scheme.config: scheme.seconds for scheme in schemes(*records)}
    assert found[sure] == found[lucky] == least
    assert schemes(*records)[0].seconds == least
    found = {scheme.config: scheme.seconds for scheme in schemes(records[1])}
    assert found[lucky] == 0.7 * least  # nothing else was read


def test_the_fastest_record_of_a_layout_stands_for_it() -> None:
    same = [c.config for c in ranked(CONV, CPU) if layouts_of(c.config) == layouts_of(WORST[0])]
    slow, fast = took(same[0], 3.0), took(same[1], 1.0)
    found = [s for s in schemes(slow, fast) if layouts_of(s.config) == layouts_of(WORST[0])]
    assert found == [Candidate(same[1], fast.seconds)]


def test_what_failed_is_replaced_by_the_next_best_of_its_layout() -> None:
    best = PREDICTED[0].config
    found = schemes(failed(best))
    assert best not in {scheme.config for scheme in found}
    assert layouts_of(best) in {layouts_of(scheme.config) for scheme in found}


def test_where_everything_failed_there_is_still_something_to_build() -> None:
    found = schemes(*(failed(candidate.config) for candidate in ranked(CONV, CPU)))
    assert found[0] == PREDICTED[0]


def test_without_records_the_model_speaks() -> None:
    assert schemes()[0] == PREDICTED[0]


WINOGRAD = WinogradConfig(16, 16, 4, 4)


@pytest.mark.parametrize("limit", ["0", "2"])
def test_records_of_a_tile_that_the_user_forbids_do_not_count(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(CONV, WINOGRAD, (1e-9,), "testcpu", 2)
    assert schemes(record)[0].config == WINOGRAD
    monkeypatch.setenv(TILE_LIMIT, limit)
    found = [scheme.config for scheme in schemes(record)]
    assert found
    allowed = {int(limit)} - {0}
    assert {c.tile for c in found if isinstance(c, WinogradConfig)} <= allowed
    assert schemes(record) == schemes()
    monkeypatch.delenv(TILE_LIMIT)
    assert schemes(record)[0].config == WINOGRAD


def test_records_that_cannot_compute_the_workload_do_not_count() -> None:
    impossible = [ConvConfig(24, 16, 7), DepthwiseConfig(16, 32, 7), DenseConfig(16)]
    records = [Record(CONV, config, (1e-9,), "testcpu", 2) for config in impossible]
    assert schemes(*records) == schemes()


def history(plan: Plan, *records: Record) -> History:
    log = LogContents(records, {PlanKey(GRAPH.hash, CPU.name, CPU.cores): plan})
    return History(CPU.name, CPU.cores, (log,))


def test_a_plan_whose_tile_the_user_forbids_gives_way_to_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = history(Plan(GRAPH.hash, {"a": WINOGRAD}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_plan(GRAPH, CPU, known).configs == {"a": WINOGRAD}
    monkeypatch.setenv(TILE_LIMIT, "0")
    with pytest.warns(TuningLogWarning) as caught:
        plan = choose_plan(GRAPH, CPU, known)
    assert plan == search_plan(GRAPH, CPU, known)
    assert not isinstance(plan.configs["a"], WinogradConfig)
    (warning,) = caught
    assert str(warning.message) == (
        f"the log's plan is not used: {WINOGRAD} cannot compute {CONV} here: "
        f"tiles of 4 are too large here ({TILE_LIMIT} is 0)"
    )


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (ConvConfig(24, 16, 7), "its ic_bn 24 does not divide 32 channels"),
        (WinogradConfig(16, 16, 9, 4), "there are no tiles of 9"),
        (DenseConfig(16), "dense_pack is of another operator"),
        (DepthwiseConfig(16, 32, 7), "does not compute such a workload on testcpu"),
    ],
)
def test_a_plan_that_cannot_compute_the_network_is_not_used(config: Config, reason: str) -> None:
    with pytest.warns(TuningLogWarning, match=reason):
        assert usable_plan(Plan(GRAPH.hash, {"a": config}), GRAPH, CPU) is None


@pytest.mark.parametrize(
    ("transform", "copy", "kept"), [(10.0, 0.0, True), (0.5, 0.0, False), (0.5, 1.0, True)]
)
def test_a_slow_scheme_is_kept_if_it_may_save_transforms(
    transform: float, copy: float, kept: bool
) -> None:
    """Times are those of the best scheme; two transforms stand around the layer.

    A transform in front reads a copy of what the layer would read through.
    """
    before, after = (GraphNode(name, NodeKind.JOIN, name, CONV.in_shape) for name in "xy")
    concat = Sweep(SweepKind.MOVE, (CONV.in_shape,), CONV.in_shape)
    node = GraphNode("a", NodeKind.CONV, "a", CONV.out_shape, CONV, read_sweeps=(concat,))
    edges = (
        GraphEdge("x", "a", CONV.in_shape, "x"),
        GraphEdge("a", "y", CONV.out_shape, "a"),
    )
    graph = ConvGraph((before, node, after), edges)
    best, *_, slow = [p.config for p in PREDICTED if layouts_of(p.config)[0].block]
    assert layouts_of(best)[0] != layouts_of(slow)[0]
    seconds = predict_seconds(CONV, best, CPU)
    records = [Record(CONV, config, (1e3 * seconds,), "testcpu", 2) for config in (slow,)]
    records.append(Record(CONV, best, (100 * seconds,), "testcpu", 2))
    moves = [
        TransformWorkload(*shape, i, o)
        for shape in (CONV.in_shape, CONV.out_shape)
        for i in range(65)
        for o in range(65)
    ]
    prices = TransformCosts(CPU, dict.fromkeys(moves, transform * 900 * seconds))

    def copies(node: GraphNode, reads: Layout, writes: Layout, config: Config | None) -> float:
        return copy * 900 * seconds if config is None else 0.0

    found = candidates_of(graph, CPU, {CONV: records}, prices, copies)[CONV]
    assert (slow in {scheme.config for scheme in found}) is kept


class Detours:
    """Transforms that cost no more than a detour: a distance between layouts."""

    def __init__(self, seconds: float, rng: random.Random) -> None:
        self._at = {block: rng.random() for block in range(65)}
        self._seconds = seconds

    def __call__(self, shape: object, before: Layout, after: Layout) -> float:
        return self._seconds * abs(self._at[before.block] - self._at[after.block])


@pytest.mark.parametrize("seed", range(6))
def test_no_plan_is_lost_with_the_schemes_that_are_dropped(seed: int, monkeypatch) -> None:
    """A chain of three layers and a residual: two of them read what the first one writes."""
    rng = random.Random(seed)
    square = replace(CONV, in_channels=64)
    shape = CONV.out_shape
    nodes = (
        GraphNode("data", NodeKind.BOUNDARY, "data", CONV.in_shape),
        GraphNode("a", NodeKind.CONV, "a", shape, CONV),
        GraphNode("b", NodeKind.CONV, "b", shape, square),
        GraphNode("add", NodeKind.JOIN, "add", shape, join_channels=(64,)),
        GraphNode("c", NodeKind.CONV, "c", shape, square),
    )
    edges = (
        GraphEdge("data", "a", CONV.in_shape, "data"),
        GraphEdge("a", "b", shape, "a"),
        GraphEdge("a", "add", shape, "a"),
        GraphEdge("b", "add", shape, "b"),
        GraphEdge("add", "c", shape, "add"),
    )
    graph = ConvGraph(nodes, edges)
    records = {
        conv: [
            Record(conv, p.config, (1e-3 * rng.uniform(1, 6),), "testcpu", 2)
            for p in best_per_layout(conv, CPU)
        ]
        for conv in graph.workloads
    }
    prices = Detours(rng.choice((1e-4, 1e-3, 5e-3)), rng)
    found = candidates_of(graph, CPU, records, prices)
    monkeypatch.setattr(candidates, "_worth_keeping", lambda schemes, _: tuple(schemes))
    every = candidates_of(graph, CPU, records, prices)
    assert sum(map(len, found.values())) < sum(map(len, every.values()))
    best, kept = (choose_layouts(graph, each, prices).seconds for each in (every, found))
    assert kept == pytest.approx(best)


def test_no_plan_is_no_plan() -> None:
    assert usable_plan(None, GRAPH, CPU) is None
