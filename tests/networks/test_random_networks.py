"""Whatever the network and whatever the plan: layouts never change what a network computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax

from tvm_neocpu.core.network.candidate import Candidate, layouts_of
from tvm_neocpu.core.network.conv_graph import ConvGraph, Shape4
from tvm_neocpu.core.network.layout import Layout, factors
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.global_search.network.choose import choose_layouts
from tvm_neocpu.pipeline import apply_plan, lower_altered
from tvm_neocpu.relay_passes.ir.regions import bindings_of
from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, Shuffle, channel_move
from tvm_neocpu.relay_passes.operators.layout_transform import transform_workload
from tvm_neocpu.relay_passes.planning.alter_op_layout import AlterOpLayout
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.table import space_of
from tvm_neocpu.tuning.group_candidates import with_groups

op = relax.op
Floats = npt.NDArray[np.float32]

TARGET = parse_target()


@dataclass(frozen=True)
class Layer:
    """One operation of a random network; it counts feature maps from the newest."""

    kind: str
    of: int = 0
    other: int = 0
    channels: int = 8
    flag: bool = False


class Network:
    """Writes a list of layers down as a module."""

    def __init__(self, batch: int, channels: int, height: int, width: int, inputs: int) -> None:
        data = relax.TensorType((batch, channels, height, width), "float32")
        self.maps = [relax.Var(f"x{i}", data) for i in range(inputs)]
        self.builder = relax.BlockBuilder()
        self.rng = np.random.default_rng(0)

    def module(self, layers: list[Layer], head: str) -> tvm.IRModule:
        with self.builder.function("main", list(self.maps)):
            with self.builder.dataflow():
                for layer in layers:
                    self.maps.append(self.emit(KINDS[layer.kind](self, self.pick(layer.of), layer)))
                result = self.builder.emit_output(HEADS[head](self, self.maps[-1]))
            self.builder.emit_func_output(result)
        return self.builder.get()

    def pick(self, number: int, like: tuple[int, ...] = ()) -> relax.Var:
        """A feature map; only those that end in these extents count."""
        alike = [m for m in self.maps if shape_of(m)[4 - len(like) :] == like]
        return alike[-1 - number % len(alike)]

    def emit(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(value)

    def constant(self, *shape: int) -> relax.Expr:
        values = self.rng.normal(size=shape) / math.sqrt(math.prod(shape[1:]))
        return relax.const(values.astype("float32"))

    def conv(self, x: relax.Var, outputs: int, size: int = 1, stride: int = 1, groups: int = 1):
        weight = self.constant(outputs, shape_of(x)[1] // groups, size, size)
        return op.nn.conv2d(x, weight, strides=stride, padding=size // 2, groups=groups)


def shape_of(x: relax.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in x.ty.shape)


def grouped(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    options = factors(math.gcd(shape_of(x)[1], layer.channels))
    return net.conv(
        x, layer.channels, 3, 2 if layer.flag else 1, options[layer.other % len(options)]
    )


def depthwise(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return net.conv(x, shape_of(x)[1], 3, groups=shape_of(x)[1])


def swish(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.multiply(x, net.emit(op.sigmoid(x)))


def scale(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.multiply(x, net.constant(*((1, shape_of(x)[1], 1, 1) if layer.flag else ())))


def add(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.add(x, net.pick(layer.other, shape_of(x)))


def add_conv(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.add(net.emit(net.conv(x, shape_of(x)[1], 3)), x)


def concat(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    other = net.pick(layer.other, shape_of(x)[2:])
    return op.concat([x, other, x] if layer.flag else [other, x], axis=1)


def average(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.nn.avg_pool2d(
        x,
        [3, 2],
        strides=[2, 1],
        padding=[1, 0, 1, 1],
        ceil_mode=layer.flag,
        count_include_pad=True,
    )


def pad(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.nn.pad(x, [0, 0, 0, 0, 1, 0, 0, 2], "constant", 0.5)


def gate(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    """Squeeze and excite."""
    squeezed = net.emit(op.mean(x, axis=[2, 3], keepdims=True))
    excited = net.emit(op.sigmoid(net.emit(net.conv(squeezed, shape_of(x)[1]))))
    return op.multiply(x, excited)


def mask(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    """A single channel that every channel is multiplied with."""
    return op.multiply(net.emit(net.conv(x, 1)), x)


def part(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    channels = shape_of(x)[1]
    begin = min(layer.of * 4, channels - 1)
    return op.strided_slice(x, [1], [begin], [max(begin + 1, min(layer.channels, channels))])


def crop(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    return op.strided_slice(x, [2, 3], [0, 0], [max(1, shape_of(x)[2] - 1), 9], [1, 2])


def shuffle(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    channels = shape_of(x)[1]
    groups = [count for count in factors(channels) if 1 < count < channels]
    return channel_move(x, Shuffle(groups[layer.other % len(groups)])) if groups else op.nn.relu(x)


def interleave(net: Network, x: relax.Var, layer: Layer) -> relax.Expr:
    rows, columns = (2, 2) if layer.flag else (1, 3)
    wide = net.emit(net.conv(x, rows * columns * layer.channels))
    return channel_move(wide, Interleave(rows, columns))


KINDS: dict[str, Callable[[Network, relax.Var, Layer], relax.Expr]] = {
    "conv": lambda net, x, layer: net.conv(x, layer.channels, 3 if layer.flag else 1),
    "grouped": grouped,
    "depthwise": depthwise,
    "relu": lambda net, x, layer: op.nn.relu(x),
    "swish": swish,
    "scale": scale,
    "add": add,
    "add conv": add_conv,
    "concat": concat,
    "max": lambda net, x, layer: op.nn.max_pool2d(x, [3, 3], [2, 2], [1, 1, 1, 1]),
    "average": average,
    "pad": pad,
    "gate": gate,
    "mask": mask,
    "part": part,
    "crop": crop,
    "shuffle": shuffle,
    "interleave": interleave,
    # Knows plain NCHW only.
    "softmax": lambda net, x, layer: op.nn.softmax(x, axis=1),
}


def flatten(net: Network, x: relax.Var) -> relax.Expr:
    batch, *rest = shape_of(x)
    flat = net.emit(op.reshape(x, (batch, math.prod(rest))))
    return op.matmul(flat, net.constant(math.prod(rest), 10))


def pooled(net: Network, x: relax.Var) -> relax.Expr:
    means = net.emit(op.mean(x, axis=[2, 3]))
    return op.matmul(means, net.constant(shape_of(x)[1], 7))


HEADS: dict[str, Callable[[Network, relax.Var], relax.Expr]] = {
    "one": lambda net, x: x,
    "two": lambda net, x: relax.Tuple([x, net.maps[-2]]),
    "flatten": flatten,
    "pooled": pooled,
}
LAYERS = st.builds(
    Layer,
    st.sampled_from([*KINDS, "conv", "conv"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([1, 4, 6, 8, 12, 16]),
    st.booleans(),
)
SHAPES = st.tuples(
    st.integers(1, 2), st.sampled_from([1, 3, 8]), st.integers(1, 9), st.integers(1, 9)
)


def any_plan(draw: Callable[..., int], graph: ConvGraph) -> Plan:
    """Any config for every convolution, any layout that fits for most joins."""
    configs, joins = {}, {}
    for node in graph.convs:
        space = space_of(node.workload, TARGET.cpu)
        configs[node.id] = space[draw(st.integers(0, len(space) - 1), node.label)]
    for node in graph.nodes:
        blocks = (0, *factors(math.gcd(*node.join_channels))) if node.join_channels else ()
        place = draw(st.integers(0, len(blocks)), node.label) if blocks else 0
        if place < len(blocks):
            joins[node.id] = Layout(blocks[place])
    return Plan(graph.hash, configs, joins)


def run(mod: tvm.IRModule, inputs: list[Floats]) -> list[Floats]:
    machine = relax.VirtualMachine(tvm.compile(mod, TARGET.target), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(array) for array in inputs))
    results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in results]


@dataclass(frozen=True)
class Sketch:
    """All that a random network is drawn from."""

    shape: tuple[int, int, int, int]
    inputs: int
    layers: list[Layer]
    head: str

    def module(self) -> tvm.IRModule:
        return Network(*self.shape, self.inputs).module(self.layers, self.head)


SKETCHES = st.builds(
    Sketch,
    SHAPES,
    st.integers(1, 2),
    st.lists(LAYERS, min_size=2, max_size=8),
    st.sampled_from(list(HEADS)),
)


@given(sketch=SKETCHES, data=st.data())
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
def test_any_plan_computes_the_same(sketch: Sketch, data: st.DataObject) -> None:
    mod = sketch.module()
    graph = ExtractConvGraph(TARGET.cpu)(mod)
    plan = any_plan(data.draw, graph)
    altered = apply_plan(mod, plan, TARGET.cpu)
    assert relax.analysis.check_well_formed(altered)
    groups = with_groups(plan, graph, TARGET.cpu).group_bands(graph)
    lowered = lower_altered(altered, plan.by_layout(graph), TARGET.cpu, groups)
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=sketch.shape).astype("float32") for _ in range(sketch.inputs)]
    for got, wanted in zip(run(lowered, arrays), run(mod, arrays), strict=True):
        atol = 1e-4 * max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=atol)


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    """Another price for every transform that moves elements."""
    move = TransformWorkload(*shape, before.block, after.block)
    return 0.0 if move.is_free else move.min_bytes * (64 + 8 * before.block + after.block)


@given(sketch=SKETCHES, data=st.data())
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
def test_the_plan_pays_for_the_transforms_that_are_inserted(
    sketch: Sketch, data: st.DataObject
) -> None:
    # Passes drop layers that nothing reads; a plan would pay for their transforms.
    mod = tidy(sketch.module())
    graph = ExtractConvGraph(TARGET.cpu)(mod)
    candidates = {}
    for workload in graph.workloads:
        space = space_of(workload, TARGET.cpu)
        places = data.draw(st.lists(st.integers(0, len(space) - 1), min_size=1, max_size=4))
        schemes = {layouts_of(space[i]): space[i] for i in places}
        seconds = data.draw(st.lists(st.floats(0, 1e6), min_size=len(schemes), max_size=4))
        candidates[workload] = [
            Candidate(c, t) for c, t in zip(schemes.values(), seconds, strict=False)
        ]
    plan = choose_layouts(graph, candidates, price)
    total = sum(
        scheme.seconds
        for node in graph.convs
        for scheme in candidates[node.workload]
        if scheme.config == plan.configs[node.id]
    )
    altered = AlterOpLayout(plan, TARGET.cpu)(mod)
    for binding in bindings_of(altered["main"]):
        move = transform_workload(binding.value)
        if move is not None:
            total += price(move.in_shape, Layout(move.before), Layout(move.after))
    assert plan.seconds == pytest.approx(total, rel=1e-6, abs=1e-6)
