"""Networks that move channels about, against ONNX Runtime, with chosen and with forced layouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from tvm_neocpu.core.conv_graph import ConvGraph, NodeKind
from tvm_neocpu.core.layout import Layout, factors
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.pipeline import apply_plan, fold, lower_altered, search_plan
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.layout_transform import count_transforms
from tvm_neocpu.target import parse_target
from tvm_neocpu.topi.strategy import space_of
from tvm_neocpu.tuning.history import History

ort = pytest.importorskip("onnxruntime")

TARGET = parse_target()
CPU = TARGET.cpu


@dataclass
class Net:
    """Writes an ONNX graph down, node by node."""

    shape: tuple[int, ...]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"t{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, *shape: int) -> str:
        values = self.rng.normal(size=shape) / math.sqrt(max(1, math.prod(shape[1:])))
        return self._store(values.astype("float32"))

    def shape_of(self, *extents: int) -> str:
        return self._store(np.array(extents, "int64"))

    def conv(self, x: str, inputs: int, outputs: int, size: int = 1, groups: int = 1) -> str:
        weights = self.weight(outputs, inputs // groups, size, size), self.weight(outputs)
        return self.node("Conv", x, *weights, pads=[size // 2] * 4, group=groups)

    def batch_norm(self, x: str, channels: int) -> str:
        params = [self.rng.uniform(0.5, 1.5, channels).astype("float32") for _ in range(4)]
        return self.node("BatchNormalization", x, *map(self._store, params))

    def shuffle(self, x: str, groups: int, channels: int) -> str:
        batch, _, *image = self.shape
        shape = self.shape_of(batch, groups, channels // groups, *image)
        rows = self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3, 4])
        return self.node("Reshape", rows, self.shape_of(batch, channels, *image))

    def model(self, result: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, [None] * 4)],
            [numpy_helper.from_array(value, name) for name, value in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def _store(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = values
        return name


def depth_to_space(mode: str) -> onnx.ModelProto:
    net = Net((1, 8, 5, 7))
    wide = net.node("Relu", net.conv("x", 8, 64, 3))
    return net.model(net.conv(net.node("DepthToSpace", wide, blocksize=2, mode=mode), 16, 3, 3))


def bare_pixel_shuffle(mode: str) -> onnx.ModelProto:
    """Nothing before it that could take its permutation; three by three pixels."""
    net = Net((2, 36, 3, 2))
    return net.model(net.node("DepthToSpace", "x", blocksize=3, mode=mode))


def shuffle_net_v1(groups: int = 3, width: int = 48, batch: int = 1) -> onnx.ModelProto:
    net = Net((batch, width, 6, 5))
    reduced = net.node("Relu", net.conv("x", width, width, 1, groups))
    mixed = net.conv(net.shuffle(reduced, groups, width), width, width, 3, width)
    return net.model(net.node("Add", net.conv(mixed, width, width, 1, groups), "x"))


def shuffle_net_v2(half: int = 16, batch: int = 1, units: int = 2) -> onnx.ModelProto:
    net = Net((batch, 2 * half, 5, 6))
    x = net.conv("x", 2 * half, 2 * half)
    for _ in range(units):
        kept, changed = net.node("Split", x, outputs=2, axis=1)
        changed = net.node("Relu", net.conv(changed, half, half))
        changed = net.conv(net.conv(changed, half, half, 3, half), half, half)
        x = net.node("Concat", kept, net.node("Relu", changed), axis=1)
        x = net.shuffle(x, 2, 2 * half)
    return net.model(net.conv(x, 2 * half, 8))


def dense_shuffle() -> onnx.ModelProto:
    """A shuffle between depthwise and dense convolutions: it goes into a weight."""
    net = Net((1, 12, 5, 5))
    x = net.shuffle(net.node("Relu", "x"), 4, 12)
    x = net.node("Relu", net.conv(net.node("MaxPool", x, kernel_shape=[2, 2]), 12, 12, 3, 12))
    return net.model(net.conv(net.node("Mul", x, net.weight(1, 12, 1, 1)), 12, 16))


def csp_block() -> onnx.ModelProto:
    """YOLOv8's C2f: a split of unequal parts, a bottleneck on one, everything concatenated."""
    net = Net((1, 16, 7, 6))
    x = net.node("Relu", net.conv("x", 16, 48))
    first, second = net.node("Split", x, net.shape_of(16, 32), outputs=2, axis=1)
    third = net.node("Add", net.conv(net.conv(second, 32, 32, 3), 32, 32, 3), second)
    head = net.node("Slice", x, *(net.shape_of(at) for at in (16, 32, 1)))
    return net.model(net.conv(net.node("Concat", first, second, third, head, axis=1), 96, 24))


def uneven_slices() -> onnx.ModelProto:
    """Of channels in between, counted from behind; of rows and columns, with steps."""
    net = Net((1, 8, 9, 6))
    x = net.conv("x", 8, 24)
    middle = net.node("Slice", x, *(net.shape_of(at) for at in (3, 17, 1)))
    corner = net.node(
        "Slice",
        x,
        *(net.shape_of(*at) for at in ((-9, 2, -9), (2**63 - 1, 8, 99), (1, 2, 3), (1, 3, 2))),
    )
    far = net.node("Relu", net.conv(middle, 14, 16))
    near = net.conv(corner, 9, 16)
    return net.model(net.node("Add", net.node("GlobalMaxPool", far), near))


def decoder() -> onnx.ModelProto:
    """A U-Net's way up: batch norm behind the transposed convolution, a skip concatenated."""
    net = Net((2, 8, 6, 10))
    skip = net.node("Relu", net.conv("x", 8, 16, 3))
    deep = net.conv(net.node("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2]), 16, 32, 3)
    up = net.node("ConvTranspose", deep, net.weight(32, 16, 2, 2), strides=[2, 2])
    up = net.node("Relu", net.batch_norm(up, 16))
    return net.model(net.conv(net.node("Concat", skip, up, axis=1), 32, 8, 3))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "DepthToSpace DCR": lambda: depth_to_space("DCR"),
    "DepthToSpace CRD": lambda: depth_to_space("CRD"),
    "bare DepthToSpace DCR": lambda: bare_pixel_shuffle("DCR"),
    "bare DepthToSpace CRD": lambda: bare_pixel_shuffle("CRD"),
    "ShuffleNet-v1": shuffle_net_v1,
    "ShuffleNet-v1, narrow groups": lambda: shuffle_net_v1(4, 20, batch=2),
    "ShuffleNet-v2": shuffle_net_v2,
    "ShuffleNet-v2, prime halves": lambda: shuffle_net_v2(13, batch=2),
    "ShuffleNet-v2, dead channels": lambda: shuffle_net_v2(29, units=1),
    "dense shuffle": dense_shuffle,
    "CSP block": csp_block,
    "uneven slices": uneven_slices,
    "decoder": decoder,
}


def transposed(
    kernel: tuple[int, int],
    strides: tuple[int, int] = (2, 2),
    pads: tuple[int, ...] = (0, 0, 0, 0),
    extra: tuple[int, int] = (0, 0),
    group: int = 1,
    dilations: tuple[int, int] = (1, 1),
    inputs: int = 8,
    outputs: int = 16,
) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        net = Net((2, inputs, 4, 5))
        weights = net.weight(inputs, outputs // group, *kernel), net.weight(outputs)
        window = {"strides": strides, "pads": pads, "output_padding": extra}
        window |= {"dilations": dilations, "group": group}
        up = net.node("ConvTranspose", net.conv("x", inputs, inputs), *weights, **window)
        return net.model(net.node("Relu", up))

    return make


MODELS |= {
    "2x2": transposed((2, 2)),
    "4x4, one crop": transposed((4, 4), pads=(1, 1, 1, 1)),
    "3x3 to even": transposed((3, 3), pads=(1, 1, 1, 1), extra=(1, 1)),
    "asymmetric": transposed((5, 2), (3, 1), (2, 0, 1, 1), (1, 0)),
    "primes": transposed((3, 3), (2, 3), (0, 1, 1, 0), inputs=7, outputs=11),
    "less than a stride": transposed((1, 1), (3, 2), extra=(1, 0)),
    "padding beyond the kernel": transposed((2, 1), (1, 2), (2, 1, 1, 0)),
    "groups": transposed((3, 2), group=4, pads=(1, 0, 0, 1)),
    "depthwise": transposed((4, 4), pads=(1, 1, 1, 1), group=8, outputs=8),
    "depthwise with a multiplier": transposed((2, 2), group=8),
    "dilated": transposed((3, 3), (1, 1), (2, 1, 0, 3), dilations=(2, 3)),
    "dilated and strided": transposed((2, 3), (2, 3), dilations=(2, 2), group=2),
}


def any_plan(graph: ConvGraph) -> Plan:
    """Any config for every convolution, any blocked layout that fits for every join."""
    rng = np.random.default_rng(len(graph.nodes))
    configs, joins = {}, {}
    for node in graph.nodes:
        if node.kind is NodeKind.CONV:
            space = space_of(node.workload, CPU)
            configs[node.id] = space[rng.integers(len(space))]
        elif node.kind is NodeKind.JOIN:
            joins[node.id] = Layout(int(rng.choice(factors(math.gcd(*node.join_channels)))))
    return Plan(graph.hash, configs, joins)


def folded(name: str) -> tuple[tvm.IRModule, ConvGraph]:
    mod = fold(from_onnx(MODELS[name]()), CPU)
    return mod, ExtractConvGraph(CPU)(mod)


def chosen_plan(graph: ConvGraph) -> Plan:
    return search_plan(graph, CPU, History(CPU.name, CPU.cores))


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_onnx_runtimes(name: str) -> None:
    model = MODELS[name]()
    session = ort.InferenceSession(model.SerializeToString())
    shape = session.get_inputs()[0].shape
    data = np.random.default_rng(1).normal(size=shape).astype("float32")
    (expected,) = session.run(None, {"x": data})
    mod, graph = folded(name)
    for plan in (chosen_plan(graph), any_plan(graph)):
        altered = apply_plan(mod, plan, CPU)
        assert relax.analysis.check_well_formed(altered)
        lowered = lower_altered(altered, plan.by_layout(graph), CPU)
        machine = relax.VirtualMachine(tvm.compile(lowered, TARGET.target), tvm.cpu())
        found = machine["main"](tvm.runtime.tensor(data)).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "dense shuffle"])
def test_nothing_stays_that_depends_on_plain_layouts(name: str) -> None:
    _, graph = folded(name)
    boundaries = [node.label for node in graph.nodes if node.kind is NodeKind.BOUNDARY]
    assert boundaries == ["x", "output"]


ALIGNED = ["DepthToSpace CRD", "ShuffleNet-v2", "CSP block", "decoder", "2x2"]


@pytest.mark.parametrize("name", ALIGNED)
def test_transforms_stand_at_the_ends_alone(name: str) -> None:
    mod, graph = folded(name)
    assert count_transforms(apply_plan(mod, chosen_plan(graph), CPU)) <= 2
