"""ExtractConvGraph: what chooses a layout in a module, and which tensors flow between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, NodeKind, Shape4
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]
Link = tuple[str, str, Shape4]

CPU = Cpu("haswell", AVX2, cores=1)
SHAPE = (1, 16, 6, 6)
IMAGE = "16x6x6->16 3x3 p1"


def extract(build: Callable[..., relax.Expr], *shapes: tuple[int, ...]) -> ConvGraph:
    """``build(emit, x, ...)``, every operation emitted; the inputs are called x, y..."""
    builder = relax.BlockBuilder()
    types = [relax.TensorType(shape, "float32") for shape in shapes or (SHAPE,)]
    inputs = [relax.Var(name, ty) for name, ty in zip("xyz", types, strict=False)]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, *inputs))
        builder.emit_func_output(result)
    mod = builder.get()
    before = mod.script()
    graph = ExtractConvGraph(CPU)(mod)
    assert mod.script() == before
    return graph


def const(*shape: int) -> relax.Expr:
    return relax.const(np.zeros(shape, "float32"))


def conv(x: relax.Var, outputs: int = 16, size: int = 3) -> relax.Expr:
    weight = const(outputs, int(x.ty.shape[1]), size, size)
    return op.nn.conv2d(x, weight, padding=size // 2)


def labels(graph: ConvGraph) -> list[tuple[NodeKind, str]]:
    return [(node.kind, node.label) for node in graph.nodes]


def links(graph: ConvGraph) -> list[Link]:
    """The edges, by the labels of their ends."""
    name = {node.id: node.label for node in graph.nodes}
    return [(name[edge.src], name[edge.dst], edge.shape) for edge in graph.edges]


def tensors(graph: ConvGraph) -> int:
    return len({edge.tensor for edge in graph.edges})


def test_a_chain() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(op.nn.relu(emit(conv(x))))
        return emit(conv(emit(op.nn.max_pool2d(y, [2, 2], [2, 2])), 8, 1))

    graph = extract(build)
    second = "16x3x3->8 1x1"
    assert labels(graph) == [
        (NodeKind.BOUNDARY, "x"),
        (NodeKind.CONV, IMAGE),
        (NodeKind.CONV, second),
        (NodeKind.BOUNDARY, "output"),
    ]
    # A transform would sit where the tensor is as the second convolution reads it: pooled.
    assert links(graph) == [
        ("x", IMAGE, SHAPE),
        (IMAGE, second, (1, 16, 3, 3)),
        (second, "output", (1, 8, 3, 3)),
    ]
    assert graph.convs[0].workload == ConvWorkload(1, 16, 6, 6, 16, (3, 3), padding=(1, 1, 1, 1))
    assert graph.convs[0].out_shape == (1, 16, 6, 6)


def test_a_residual_sum_joins_two_tensors() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(conv(x))
        return emit(op.nn.relu(emit(op.add(emit(conv(y, 16, 1)), y))))

    graph = extract(build)
    point = "16x6x6->16 1x1"
    assert links(graph)[1:] == [
        (IMAGE, point, SHAPE),
        (point, "add", SHAPE),
        (IMAGE, "add", SHAPE),
        ("add", "output", SHAPE),
    ]
    (join,) = (node for node in graph.nodes if node.kind is NodeKind.JOIN)
    assert join.join_channels == (16,)
    # One and the same tensor goes into the second convolution and past it.
    assert tensors(graph) == 4


def test_one_variable_read_twice_by_one_node() -> None:
    graph = extract(lambda emit, x: emit(op.add(emit(conv(x)), emit(conv(x)))))
    assert links(graph)[:2] == [("x", IMAGE, SHAPE)] * 2
    square = extract(lambda emit, x: (lambda y: emit(op.multiply(y, y)))(emit(conv(x))))
    assert links(square)[1:3] == [(IMAGE, "multiply", SHAPE)] * 2
    assert len({edge.tensor for edge in square.edges[1:3]}) == 1


def test_x_times_sigmoid_of_x_reads_two_tensors_of_one_node() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(conv(x))
        return emit(op.multiply(y, emit(op.sigmoid(y))))

    graph = extract(build)
    assert links(graph)[1:3] == [(IMAGE, "multiply", SHAPE)] * 2
    assert len({edge.tensor for edge in graph.edges[1:3]}) == 2


def test_concat_lists_the_channels_that_a_block_must_divide() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(op.concat([emit(conv(x, 24)), x, emit(conv(x, 1))], axis=1))

    graph = extract(build)
    (join,) = (node for node in graph.nodes if node.kind is NodeKind.JOIN)
    assert join.join_channels == (1, 16, 24)
    assert join.out_shape == (1, 41, 6, 6)


def test_a_gate_is_joined_at_the_size_of_a_pixel() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(conv(x))
        gate = emit(conv(emit(op.mean(y, axis=[2, 3], keepdims=True)), 16, 1))
        return emit(op.multiply(y, emit(op.sigmoid(gate))))

    graph = extract(build)
    pixel = "16x1x1->16 1x1"
    assert links(graph)[1:4] == [
        (IMAGE, pixel, (1, 16, 1, 1)),
        (IMAGE, "multiply", SHAPE),
        (pixel, "multiply", (1, 16, 1, 1)),
    ]


def test_a_pooled_dense_layer_hangs_on_no_layout() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        pooled = emit(op.mean(emit(conv(x)), axis=[2, 3]))
        return emit(op.nn.softmax(emit(op.matmul(pooled, const(16, 10)))))

    graph = extract(build)
    assert links(graph) == [("x", IMAGE, SHAPE)]
    assert graph.workloads[1] == DenseWorkload(1, 16, 10)


def test_operations_that_know_plain_nchw_only_are_boundaries() -> None:
    def build(emit: Emit, x: relax.Var, w: relax.Var) -> relax.Expr:
        y = emit(op.nn.softmax(emit(conv(x)), axis=1))
        return emit(conv(emit(op.nn.conv2d(y, w))))

    graph = extract(build, SHAPE, (16, 16, 1, 1))
    assert links(graph) == [
        ("x", IMAGE, SHAPE),
        (IMAGE, "nn.softmax", SHAPE),
        ("nn.softmax", "nn.conv2d", SHAPE),
        ("y", "nn.conv2d", (16, 16, 1, 1)),
        ("nn.conv2d", IMAGE, SHAPE),
        (IMAGE, "output", SHAPE),
    ]


def test_parts_of_a_split_start_plain() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        halves = emit(op.split(emit(conv(x)), 2, axis=1))
        return emit(conv(emit(relax.TupleGetItem(halves, 0)), 8))

    graph = extract(build)
    half = "8x6x6->8 3x3 p1"
    assert links(graph)[1:] == [
        (IMAGE, "split", SHAPE),
        ("tuple", half, (1, 8, 6, 6)),
        (half, "output", (1, 8, 6, 6)),
    ]


def test_every_output_leaves_plain() -> None:
    def build(emit: Emit, x: relax.Var, y: relax.Var) -> relax.Expr:
        one = emit(conv(x))
        return emit(relax.Tuple([one, emit(conv(y, 8)), x]))

    graph = extract(build, SHAPE, SHAPE)
    assert [node.label for node in graph.nodes if node.kind is NodeKind.BOUNDARY][:2] == ["x", "y"]
    into_plain = [(src, shape) for src, dst, shape in links(graph) if dst in ("tuple", "output")]
    assert into_plain == [(IMAGE, SHAPE), ("16x6x6->8 3x3 p1", (1, 8, 6, 6)), ("x", SHAPE)]


def test_equal_networks_have_equal_hashes() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(conv(emit(op.nn.relu(emit(conv(x))))))

    assert extract(build).hash == extract(build).hash
    assert extract(build).hash != extract(build, (2, 16, 6, 6)).hash


def test_a_dense_layer_hangs_on_what_it_uses() -> None:
    """It reads no feature map, so that nothing is decided on the way: for the drawing alone."""

    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        mean = emit(op.mean(emit(conv(x)), [2, 3]))
        return op.add(emit(op.matmul(mean, const(16, 8))), const(8))

    graph = extract(build)
    name = {node.id: node.label for node in graph.nodes}
    flows = [(name[source], name[target]) for source, target in graph.flows]
    assert flows == [(IMAGE, "dense 1x16->8"), ("dense 1x16->8", "add")]
    assert links(graph) == [("x", IMAGE, SHAPE)]


def test_what_an_edge_shows_is_no_flow() -> None:
    graph = extract(lambda emit, x: op.add(emit(conv(x)), x))
    assert graph.edges and graph.flows == ()
