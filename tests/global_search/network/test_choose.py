"""`choose_layouts`: no other plan is cheaper, and the plan says what it costs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.errors import InvalidProblemError
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search.network.choose import choose_layouts
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
Schemes = dict[Workload, tuple[Candidate, ...]]


def workload(name: str) -> ConvWorkload:
    """A workload of its own for every name."""
    return ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform(name))


def node(name: str, kind: NodeKind) -> GraphNode:
    return GraphNode(
        name,
        kind,
        kind.value,
        SHAPE,
        workload(name) if kind is NodeKind.CONV else None,
        (16,) if kind is NodeKind.JOIN else (),
    )


def network(nodes: dict[str, NodeKind], *edges: tuple[str, str]) -> ConvGraph:
    """A graph between an input and an output; every tensor has the name of its source."""
    inner = [node(name, kind) for name, kind in nodes.items()]
    ends = node("data", NodeKind.BOUNDARY), node("out", NodeKind.BOUNDARY)
    made = [GraphEdge(src, dst, SHAPE, src) for src, dst in edges]
    return ConvGraph((ends[0], *inner, ends[1]), tuple(made))


CONV, JOIN = NodeKind.CONV, NodeKind.JOIN
CHAIN = network({"a": CONV, "b": CONV}, ("data", "a"), ("a", "b"), ("b", "out"))
RESIDUAL = network(
    {"a": CONV, "b": CONV, "c": CONV, "sum": JOIN},
    ("data", "a"),
    ("a", "b"),
    ("b", "c"),
    ("c", "sum"),
    ("a", "sum"),
    ("sum", "out"),
)
INCEPTION = network(
    {"a": CONV, "b": CONV, "c": CONV, "concat": JOIN, "d": CONV},
    ("data", "a"),
    ("data", "b"),
    ("a", "c"),
    ("c", "concat"),
    ("b", "concat"),
    ("a", "concat"),
    ("concat", "d"),
    ("d", "out"),
)
GRAPHS = {"chain": CHAIN, "residual": RESIDUAL, "inception": INCEPTION}


def free(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0


def expensive(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0 if before == after else 100.0


def schemes(*entries: tuple[int, int, float]) -> tuple[Candidate, ...]:
    """One scheme per (ic_bn, oc_bn, seconds)."""
    return tuple(Candidate(ConvConfig(x, y, 1), seconds) for x, y, seconds in entries)


def test_free_transforms_leave_every_convolution_its_fastest_scheme() -> None:
    candidates = {
        workload("a"): schemes((8, 16, 3.0), (4, 8, 1.0)),
        workload("b"): schemes((8, 16, 2.0), (16, 4, 1.5)),
    }
    plan = choose_layouts(CHAIN, candidates, free)
    assert plan.configs == {"a": ConvConfig(4, 8, 1), "b": ConvConfig(16, 4, 1)}
    assert (plan.seconds, plan.optimal, plan.graph) == (2.5, True, CHAIN.hash)


def test_expensive_transforms_make_neighbours_agree() -> None:
    candidates = {
        workload("a"): schemes((0, 16, 1.0), (0, 8, 5.0)),
        workload("b"): schemes((8, 0, 1.0), (16, 0, 9.0)),
    }
    plan = choose_layouts(CHAIN, candidates, expensive)
    assert plan.configs == {"a": ConvConfig(0, 8, 1), "b": ConvConfig(8, 0, 1)}
    assert plan.seconds == 6.0


def test_joins_are_planned_too() -> None:
    candidates = {workload(name): schemes((16, 16, 1.0), (8, 8, 1.0)) for name in "bc"}
    candidates[workload("a")] = schemes((0, 16, 1.0), (0, 8, 2.0))
    plan = choose_layouts(RESIDUAL, candidates, expensive)
    assert plan.joins == {"sum": Layout(16)}
    assert plan.seconds == 3 + 100


def test_a_workload_without_schemes_is_refused() -> None:
    candidates = {workload("a"): schemes((0, 16, 1.0)), workload("b"): ()}
    with pytest.raises(InvalidProblemError, match="candidate list is empty"):
        choose_layouts(CHAIN, candidates, free)


def seconds_of(graph: ConvGraph, candidates: Schemes, plan: Plan, price) -> float:
    """The seconds of a plan: every node, and every distinct transform of a tensor once."""
    reads = {n.id: NCHW for n in graph.nodes} | dict(plan.joins)
    writes = dict(reads)
    total = 0.0
    for conv in graph.convs:
        options = [c for c in candidates[conv.workload] if c.config == plan.configs[conv.id]]
        total += min(option.seconds for option in options)
        reads[conv.id], writes[conv.id] = options[0].reads, options[0].writes
    moves = {(e.tensor, e.shape, writes[e.src], reads[e.dst]) for e in graph.edges}
    return total + sum(price(*move[1:]) for move in moves)


SECONDS = st.floats(0, 10)
BLOCKS = st.sampled_from([0, 4, 8, 16])
SCHEMES = st.lists(
    st.tuples(BLOCKS, BLOCKS, SECONDS), min_size=1, max_size=3, unique_by=lambda s: s[:2]
).map(lambda entries: schemes(*entries))


def layouts_around(graph: ConvGraph, candidates: Schemes, join: str) -> set[Layout]:
    """A join's candidates: plain NCHW, and all layouts that a scheme next to it reads or writes."""
    near = [conv.workload for conv in graph.convs if conv.id in graph.neighbours[join]]
    schemes = [scheme for work in near for scheme in candidates[work]]
    return {NCHW, *(s.reads for s in schemes), *(s.writes for s in schemes)}


@pytest.mark.parametrize("name", GRAPHS)
@given(data=st.data())
@settings(max_examples=30)
def test_no_other_plan_is_cheaper(name: str, data: st.DataObject) -> None:
    graph = GRAPHS[name]
    candidates = {work: data.draw(SCHEMES) for work in graph.workloads}
    prices = {
        (x, y): 0.0 if x == y else data.draw(SECONDS, f"{x}->{y}")
        for x, y in itertools.product(map(Layout, (0, 4, 8, 16)), repeat=2)
    }

    def price(shape: Shape4, before: Layout, after: Layout) -> float:
        return prices[before, after]

    plan = choose_layouts(graph, candidates, price)
    assert plan.seconds == pytest.approx(seconds_of(graph, candidates, plan, price))
    joins = sorted(graph.joins)
    around = [layouts_around(graph, candidates, join) for join in joins]
    for configs in itertools.product(*(candidates[conv.workload] for conv in graph.convs)):
        chosen = {conv.id: c.config for conv, c in zip(graph.convs, configs, strict=True)}
        for layouts in itertools.product(*around):
            other = Plan(graph.hash, chosen, dict(zip(joins, layouts, strict=True)))
            assert seconds_of(graph, candidates, other, price) >= plan.seconds - 1e-9
