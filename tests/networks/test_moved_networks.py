"""Networks that move channels about, against ONNX Runtime, with chosen and with forced layouts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
import pytest
import tvm
from onnx_net import Compute, Net, check
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from tvm_neocpu.choose_plan import search_plan
from tvm_neocpu.codegen.network import compile_network
from tvm_neocpu.core.network.conv_graph import ConvGraph, NodeKind
from tvm_neocpu.core.network.layout import Layout, factors
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.pipeline import apply_plan, fold, lower_altered
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.table import space_of
from tvm_neocpu.tuning.database.history import History

TARGET = parse_target()
CPU = TARGET.cpu


def shuffle(net: Net, x: str, groups: int, channels: int) -> str:
    batch, _, *image = net.shape
    shape = net.integers(batch, groups, channels // groups, *image)
    rows = net("Transpose", net("Reshape", x, shape), perm=[0, 2, 1, 3, 4])
    return net("Reshape", rows, net.integers(batch, channels, *image))


def depth_to_space(mode: str) -> onnx.ModelProto:
    net = Net((1, 8, 5, 7), biases=True)
    wide = net("Relu", net.conv("data", 8, 64, 3))
    return net.model(net.conv(net("DepthToSpace", wide, blocksize=2, mode=mode), 16, 3, 3))


def bare_pixel_shuffle(mode: str) -> onnx.ModelProto:
    """Nothing before it that could take its permutation; three by three pixels."""
    net = Net((2, 36, 3, 2))
    return net.model(net("DepthToSpace", "data", blocksize=3, mode=mode))


def shuffle_net_v1(groups: int = 3, width: int = 48, batch: int = 1) -> onnx.ModelProto:
    net = Net((batch, width, 6, 5), biases=True)
    reduced = net("Relu", net.conv("data", width, width, 1, groups))
    mixed = net.conv(shuffle(net, reduced, groups, width), width, width, 3, width)
    return net.model(net("Add", net.conv(mixed, width, width, 1, groups), "data"))


def shuffle_net_v2(half: int = 16, batch: int = 1, units: int = 2) -> onnx.ModelProto:
    net = Net((batch, 2 * half, 5, 6), biases=True)
    x = net.conv("data", 2 * half, 2 * half)
    for _ in range(units):
        kept, changed = net.several(2, "Split", x, axis=1)
        changed = net("Relu", net.conv(changed, half, half))
        changed = net.conv(net.conv(changed, half, half, 3, half), half, half)
        x = net("Concat", kept, net("Relu", changed), axis=1)
        x = shuffle(net, x, 2, 2 * half)
    return net.model(net.conv(x, 2 * half, 8))


def dense_shuffle() -> onnx.ModelProto:
    """A shuffle between depthwise and dense convolutions: it goes into a weight."""
    net = Net((1, 12, 5, 5), biases=True)
    x = shuffle(net, net("Relu", "data"), 4, 12)
    x = net("Relu", net.conv(net("MaxPool", x, kernel_shape=[2, 2]), 12, 12, 3, 12))
    return net.model(net.conv(net("Mul", x, net.weight(1, 12, 1, 1)), 12, 16))


def csp_block() -> onnx.ModelProto:
    """YOLOv8's C2f: a split of unequal parts, a bottleneck on one, everything concatenated."""
    net = Net((1, 16, 7, 6), biases=True)
    x = net("Relu", net.conv("data", 16, 48))
    first, second = net.several(2, "Split", x, net.integers(16, 32), axis=1)
    third = net("Add", net.conv(net.conv(second, 32, 32, 3), 32, 32, 3), second)
    head = net("Slice", x, *(net.integers(at) for at in (16, 32, 1)))
    return net.model(net.conv(net("Concat", first, second, third, head, axis=1), 96, 24))


def uneven_slices() -> onnx.ModelProto:
    """Of channels in between, counted from behind; of rows and columns, with steps."""
    net = Net((1, 8, 9, 6), biases=True)
    x = net.conv("data", 8, 24)
    middle = net("Slice", x, *(net.integers(at) for at in (3, 17, 1)))
    corner = net(
        "Slice",
        x,
        *(net.integers(*at) for at in ((-9, 2, -9), (2**63 - 1, 8, 99), (1, 2, 3), (1, 3, 2))),
    )
    far = net("Relu", net.conv(middle, 14, 16))
    near = net.conv(corner, 9, 16)
    return net.model(net("Add", net("GlobalMaxPool", far), near))


def decoder() -> onnx.ModelProto:
    """A U-Net's way up: batch norm behind the transposed convolution, a skip concatenated."""
    net = Net((2, 8, 6, 10), biases=True)
    skip = net("Relu", net.conv("data", 8, 16, 3))
    deep = net.conv(net("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2]), 16, 32, 3)
    up = net("ConvTranspose", deep, net.weight(32, 16, 2, 2), strides=[2, 2])
    up = net("Relu", net.batch_norm(up, 16))
    return net.model(net.conv(net("Concat", skip, up, axis=1), 32, 8, 3))


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
        net = Net((2, inputs, 4, 5), biases=True)
        weights = net.weight(inputs, outputs // group, *kernel), net.weight(outputs)
        window = {"strides": strides, "pads": pads, "output_padding": extra}
        window |= {"dilations": dilations, "group": group}
        up = net("ConvTranspose", net.conv("data", inputs, inputs), *weights, **window)
        return net.model(net("Relu", up))

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


def compiled(lowered: tvm.IRModule) -> Compute:
    machine = relax.VirtualMachine(compile_network(lowered, TARGET.target), tvm.cpu())
    return lambda data: machine["main"](tvm.runtime.tensor(data)).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_onnx_runtimes(name: str) -> None:
    model = MODELS[name]()
    mod, graph = folded(name)
    for plan in (chosen_plan(graph), any_plan(graph)):
        altered = apply_plan(mod, plan, CPU)
        assert relax.analysis.check_well_formed(altered)
        check(model, compiled(lower_altered(altered, plan.by_layout(graph), CPU)))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "dense shuffle"])
def test_nothing_stays_that_depends_on_plain_layouts(name: str) -> None:
    _, graph = folded(name)
    boundaries = [node.label for node in graph.nodes if node.kind is NodeKind.BOUNDARY]
    assert boundaries == ["data", "output"]


ALIGNED = ["DepthToSpace CRD", "ShuffleNet-v2", "CSP block", "decoder", "2x2"]


@pytest.mark.parametrize("name", ALIGNED)
def test_transforms_stand_at_the_ends_alone(name: str) -> None:
    mod, graph = folded(name)
    assert count_transforms(apply_plan(mod, chosen_plan(graph), CPU)) <= 2
