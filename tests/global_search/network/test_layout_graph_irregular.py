"""Networks that TVM's graph tuner did not support: each gets a plan, at the right price."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search.network.choose import choose_layouts
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.candidates import UNMEASURED_PENALTY, candidates_of

SHAPE = (1, 16, 4, 4)
PIXEL = (1, 16, 1, 1)
Schemes = dict[Workload, tuple[Candidate, ...]]


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    """The moved bytes, ten times that if single lanes move instead of vectors."""
    move = TransformWorkload(*shape, before.block, after.block)
    if move.is_free:
        return 0.0
    return move.min_bytes * (1.0 if before.block and after.block else 10.0)


class Network:
    """A graph, built from input to output. Every method adds a node and returns its name."""

    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.candidates: Schemes = {}

    def boundary(self, name: str, *sources: str, shape: Shape4 = SHAPE) -> str:
        return self._add(GraphNode(name, NodeKind.BOUNDARY, name, shape), sources)

    def conv(self, name: str, source: str, *blocks: tuple[int, int], shape: Shape4 = SHAPE) -> str:
        """A convolution with these (ic_bn, oc_bn) schemes, which take 1.0, 2.0, ... seconds."""
        workload = ConvWorkload(1, 16, *shape[2:], shape[1], (1, 1), types=uniform(name))
        schemes = [Candidate(ConvConfig(x, y, 1), 1.0 + k) for k, (x, y) in enumerate(blocks)]
        self.candidates[workload] = tuple(schemes)
        return self._add(GraphNode(name, NodeKind.CONV, name, shape, workload), (source,))

    def dense(self, name: str) -> str:
        workload = DenseWorkload(1, 16, 16)
        self.candidates[workload] = (Candidate(DenseConfig(16), 1.0),)
        return self._add(GraphNode(name, NodeKind.CONV, name, PIXEL, workload), ())

    def join(self, name: str, *sources: str, shape: Shape4 = SHAPE, concat: bool = False) -> str:
        channels = {self._of(source).out_shape[1] for source in sources} if concat else {shape[1]}
        node = GraphNode(name, NodeKind.JOIN, name, shape, None, tuple(sorted(channels)))
        return self._add(node, sources)

    def plan(self) -> Plan:
        plan = choose_layouts(self.graph, self.candidates, price)
        assert plan.optimal
        return plan

    @property
    def graph(self) -> ConvGraph:
        return ConvGraph(tuple(self.nodes), tuple(self.edges))

    def _add(self, node: GraphNode, sources: tuple[str, ...]) -> str:
        self.nodes.append(node)
        for source in sources:
            # "a.relu" is another tensor of node a: an activation of its output.
            src = source.partition(".")[0]
            self.edges.append(GraphEdge(src, node.id, self._of(source).out_shape, source))
        return node.id

    def _of(self, tensor: str) -> GraphNode:
        return next(node for node in self.nodes if node.id == tensor.partition(".")[0])


def moved(shape: Shape4, before: int, after: int) -> float:
    return price(shape, Layout(before), Layout(after))


def test_inputs_and_outputs_are_edges_too() -> None:
    net = Network()
    net.boundary("output", net.conv("a", net.boundary("data"), (16, 16), (0, 8)))
    assert net.plan().configs["a"] == ConvConfig(0, 8, 1)
    assert net.plan().seconds == 2.0 + moved(SHAPE, 8, 0)


def test_several_inputs() -> None:
    net = Network()
    left = net.conv("a", net.boundary("left"), (0, 16))
    right = net.conv("b", net.boundary("right"), (0, 8))
    net.boundary("output", net.join("sum", left, right))
    plan = net.plan()
    assert plan.joins["sum"] in (Layout(16), Layout(8))
    assert plan.seconds == 2.0 + moved(SHAPE, 16, 8) + moved(SHAPE, 16, 0)


def test_tuples_in_tuples_are_read_plain() -> None:
    net = Network()
    data = net.boundary("data")
    a, b, c = (net.conv(name, data, (0, 16)) for name in "abc")
    net.boundary("tuple", a, b, c)  # ((a, b), c) reads all its fields, however deep
    field = net.boundary("field")
    net.boundary("output", net.conv("d", field, (16, 0), (0, 0)))
    assert net.plan().seconds == 3.0 + 3 * moved(SHAPE, 16, 0) + 2.0


@pytest.mark.parametrize(("tensors", "transforms"), [("a a", 1), ("a a.sigmoid", 2)])
def test_a_branch_may_enter_a_node_twice(tensors: str, transforms: int) -> None:
    """x * x reads one tensor, x * sigmoid(x) two."""
    net = Network()
    net.conv("a", net.boundary("data"), (0, 16))
    product = net.join("product", *tensors.split())
    net.boundary("output", net.conv("b", product, (16, 0)))
    assert net.plan().seconds == 2.0
    plain = Network()
    plain.conv("a", plain.boundary("data"), (0, 16))
    plain.boundary("reshape", *tensors.split())
    assert plain.plan().seconds == 1.0 + transforms * moved(SHAPE, 16, 0)


def test_squeeze_and_excite_costs_no_transform() -> None:
    net = Network()
    x = net.conv("x", net.boundary("data"), (0, 16))
    net.boundary("mean", shape=PIXEL)
    squeeze = net.conv("squeeze", "mean", (8, 4), shape=PIXEL)
    excite = net.conv("excite", squeeze, (16, 8), shape=PIXEL)
    net.boundary("output", net.conv("y", net.join("gate", x, excite), (16, 0)))
    plan = net.plan()
    assert plan.joins == {"gate": Layout(16)}
    assert plan.seconds == 4.0


def test_a_dense_layer_in_the_middle() -> None:
    net = Network()
    a = net.conv("a", net.boundary("data"), (0, 16), (0, 0))
    net.boundary("flatten", a)
    net.dense("dense")
    back = net.boundary("reshape")
    net.boundary("output", net.conv("b", back, (16, 0), (0, 0)))
    plan = net.plan()
    assert plan.configs["dense"] == DenseConfig(16)
    assert [plan.configs[name].oc_bn for name in "ab"] == [0, 0]
    assert plan.seconds == 2.0 + 1.0 + 2.0


def test_twenty_outputs_of_one_node() -> None:
    net = Network()
    a = net.conv("a", net.boundary("data"), (0, 16), (0, 8))
    for k in range(20):
        net.conv(f"out{k}", a, (16, 0)) if k % 3 else net.conv(f"out{k}", a, (8, 0))
    plan = net.plan()
    assert plan.configs["a"].oc_bn == 16
    assert plan.seconds == 1.0 + 20.0 + moved(SHAPE, 16, 8)


def test_twenty_outputs_of_the_network() -> None:
    net = Network()
    data = net.boundary("data")
    net.boundary("output", *[net.conv(f"out{k}", data, (0, 16)) for k in range(20)])
    assert net.plan().seconds == 20 * (1.0 + moved(SHAPE, 16, 0))


def test_concat_of_unequal_blocks_costs_what_its_inputs_move() -> None:
    net = Network()
    data = net.boundary("data")
    small, large = (1, 16, 4, 4), (1, 48, 4, 4)
    a = net.conv("a", data, (0, 16), shape=small)
    b = net.conv("b", data, (0, 48), shape=large)
    joined = net.join("concat", a, b, shape=(1, 64, 4, 4), concat=True)
    net.conv("c", joined, (64, 0), (16, 0))
    plan = net.plan()
    assert plan.joins == {"concat": Layout(16)}
    assert plan.seconds == 1.0 + 1.0 + 2.0 + moved(large, 48, 16)


def test_concat_takes_the_largest_common_block_where_no_neighbour_fits() -> None:
    net = Network()
    data = net.boundary("data")
    a = net.conv("a", data, (0, 24), shape=(1, 24, 4, 4))
    b = net.conv("b", data, (0, 40), shape=(1, 40, 4, 4))
    net.conv("c", net.join("concat", a, b, shape=(1, 64, 4, 4), concat=True), (64, 0))
    plan = net.plan()
    assert plan.joins == {"concat": Layout(8)}
    parts = moved((1, 24, 4, 4), 24, 8) + moved((1, 40, 4, 4), 40, 8)
    assert plan.seconds == 3.0 + parts + moved((1, 64, 4, 4), 8, 64)


def test_an_odd_concat_stays_plain() -> None:
    net = Network()
    data = net.boundary("data")
    a = net.conv("a", data, (0, 3), shape=(1, 3, 4, 4))
    b = net.conv("b", data, (0, 16), shape=(1, 16, 4, 4))
    net.boundary("output", net.join("concat", a, b, shape=(1, 19, 4, 4), concat=True))
    assert net.plan().joins == {"concat": NCHW}


def test_workloads_without_a_record_are_planned_by_the_cost_model() -> None:
    cpu = Cpu("testcpu", AVX512, 2)
    known = ConvWorkload(1, 32, 28, 28, 64, (3, 3), padding=(1, 1, 1, 1))
    unknown = ConvWorkload(1, 64, 28, 28, 64, (1, 1))
    wide, half = (1, 32, 28, 28), (1, 64, 28, 28)
    nodes = (
        GraphNode("data", NodeKind.BOUNDARY, "data", wide),
        GraphNode("known", NodeKind.CONV, "known", half, known),
        GraphNode("unknown", NodeKind.CONV, "unknown", half, unknown),
    )
    edges = (
        GraphEdge("data", "known", wide, "data"),
        GraphEdge("known", "unknown", half, "known"),
    )
    graph = ConvGraph(nodes, edges)
    best = ConvConfig(16, 32, 14)
    record = Record(known, best, (1e-4,), "testcpu", 2)
    candidates = candidates_of(graph, cpu, {known: (record,)})
    assert candidates[known][0] == Candidate(best, 1e-4)
    guesses = candidates[known][1:]
    assert all(guess.seconds >= 1e-4 * UNMEASURED_PENALTY for guess in guesses)
    plan = choose_layouts(graph, candidates, lambda *move: price(*move) * 1e-9)
    assert plan.configs.keys() == {"known", "unknown"}
