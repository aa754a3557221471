"""NaN, infinities, zeros of both signs, denormals and huge numbers, as ONNX Runtime has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import NDArray
from onnx_net import reference
from random_onnx import RandomNet

from tvm_neocpu import relay
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.pipeline import apply_plan, fold, lower_altered
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.table import space_of

Array = NDArray[np.float32]
Write = Callable[[RandomNet, str], str]

INF, NAN = float("inf"), float("nan")
CPU = parse_target().cpu
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        INF,
        -INF,
        NAN,
        1e38,
        -1e38,
        3.4e38,
        -3.4e38,
        1e-40,
        -1e-40,
        1.2e-38,
        -1.2e-38,
        88.0,
        89.0,
        -87.0,
        104.0,
        100.0,
        -100.0,
        1e-6,
        -1e-6,
        20.0,
        -20.0,
        5.0,
        0.5,
        -0.5,
        9.0,
        1e10,
        0.25,
        -0.25,
    ],
    "float32",
)
TINY = np.finfo("float32").tiny


def operator(kind: str, **attributes: object) -> Write:
    return lambda net, x: net(kind, x, **attributes)


def with_scalar(kind: str, value: float, first: bool = True) -> Write:
    def write(net: RandomNet, x: str) -> str:
        pair = (x, net.constant(value))
        return net(kind, *(pair if first else reversed(pair)))

    return write


def clip(*bounds: float | None) -> Write:
    def write(net: RandomNet, x: str) -> str:
        return net("Clip", x, *("" if bound is None else net.constant(bound) for bound in bounds))

    return write


OPERATORS: dict[str, Write] = {
    "Relu": operator("Relu"),
    "LeakyRelu": operator("LeakyRelu"),
    "Sigmoid": operator("Sigmoid"),
    "Tanh": operator("Tanh"),
    "HardSwish": operator("HardSwish"),
    "HardSigmoid": operator("HardSigmoid"),
    "Elu": operator("Elu"),
    "Celu": operator("Celu"),
    "Softplus": operator("Softplus"),
    "Softsign": operator("Softsign"),
    "Mish": operator("Mish"),
    "Erf": operator("Erf"),
    "Exp": operator("Exp"),
    "Log": operator("Log"),
    "Sqrt": operator("Sqrt"),
    "Gelu": operator("Gelu"),
    "Sign": operator("Sign"),
    "swish": lambda net, x: net("Mul", x, net("Sigmoid", x)),
    "Clip 0 6": clip(0.0, 6.0),
    "Clip -2 6": clip(-2.0, 6.0),
    "Max 1": with_scalar("Max", 1.0),
    "1 Max": with_scalar("Max", 1.0, first=False),
    "Min 1": with_scalar("Min", 1.0),
    "Max -inf": with_scalar("Max", -INF),
    "Max of two": lambda net, x: net("Max", x, net("Neg", x)),
    "Min of two": lambda net, x: net("Min", net("Neg", x), x),
    "Sub": with_scalar("Sub", 1.0),
    "Div 3": with_scalar("Div", 3.0),
    "Div denormal": with_scalar("Div", 1e-40),
    "Div huge": with_scalar("Div", 3e38),
    "Div 0": with_scalar("Div", 0.0),
    "PRelu": lambda net, x: net("PRelu", x, net.constant(np.full((32, 1, 1), 0.25))),
    "MaxPool": operator("MaxPool", kernel_shape=[2, 2]),
    "GlobalMaxPool": operator("GlobalMaxPool"),
    "Softmax": operator("Softmax", axis=-1),
}
# The sign of a zero depends on the order of operands, or on the instruction set, for these.
EITHER_ZERO = {"Max of two", "Min of two", "Softmax", "Tanh", "Elu", "Celu", "Mish"}


def behind_each(kinds: list[str], convolved: bool) -> onnx.ModelProto:
    """Every operator, on the input or as the epilogue of a convolution; concatenated."""
    net = RandomNet((1, 32, 2, 2))
    results = []
    for kind in kinds:
        x = "data"
        if convolved:
            # Another weight for each, or they would become one.
            weight = net.constant(np.ones((32, 1, 1, 1)))
            x = net("Conv", "data", weight, group=32)
        found = OPERATORS[kind](net, x)
        if net.shape_of(found)[2:] == (1, 1):
            found = net("Expand", found, net.integers(1, 32, 2, 2))
        results.append(found)
    net.maps.append(net("Concat", *results, axis=1))
    return net.model(1)


def built(model: onnx.ModelProto, data: Array) -> Array:
    mod, params = relay.frontend.from_onnx(model)
    module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
    module.run(data=data)
    return module.get_output(0).numpy()


@pytest.mark.parametrize("convolved", [False, True], ids=["alone", "epilogue"])
def test_operators_have_onnx_runtimes_numbers(convolved: bool) -> None:
    kinds = list(OPERATORS)
    model = behind_each(kinds, convolved)
    data = np.broadcast_to(SPECIAL.reshape(1, 32, 1, 1), (1, 32, 2, 2)).copy()
    wanted = np.split(reference(model, data)[0], len(kinds))
    found = np.split(built(model, data)[0], len(kinds))
    for kind, mine, theirs in zip(kinds, found, wanted, strict=True):
        if kind == "GlobalMaxPool":  # ONNX Runtime's largest of -inf alone is finite
            theirs = np.where(theirs == np.finfo("float32").min, -INF, theirs)
        # Results below the smallest normal number may be 0; GELU is exact to 3e-7 of x.
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=3e-6, err_msg=kind)
        zeros = (mine == 0) & (theirs == 0)
        if not convolved and kind not in EITHER_ZERO:
            where = np.signbit(mine[zeros]) == np.signbit(theirs[zeros])
            assert where.all(), (kind, data[0][zeros][~where])


def convolution(channels: int = 32) -> onnx.ModelProto:
    net = RandomNet((1, channels, 12, 12))
    weight = net.constant(net.rng.uniform(0.5, 1.5, (channels, channels, 3, 3)))
    net.maps.append(net("Relu", net("Conv", "data", weight, pads=[1] * 4)))
    return net.model(1)


def with_template(model: onnx.ModelProto, config_type: type, data: Array) -> tuple[Array, object]:
    """The outputs of the network when its convolution uses such a config, and the config."""
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    graph = ExtractConvGraph(CPU)(mod)
    (node,) = graph.convs
    config = next(c for c in space_of(node.workload, CPU) if isinstance(c, config_type))
    plan = Plan(graph.hash, {node.id: config})
    lowered = lower_altered(apply_plan(mod, plan, CPU), plan.by_layout(graph), CPU)
    machine = tvm.relax.VirtualMachine(tvm.compile(lowered, parse_target().target), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(data)).numpy(), config


def image(value: float) -> Array:
    data = np.random.default_rng(0).uniform(0.5, 1.5, (1, 32, 12, 12)).astype("float32")
    data[0, 3, 5, 6] = value
    return data


@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e-42])
@pytest.mark.parametrize("config_type", [ConvConfig])
def test_a_convolution_spreads_a_number_over_its_window_alone(
    config_type: type, value: float
) -> None:
    found, _ = with_template(convolution(), config_type, image(value))
    np.testing.assert_allclose(found, reference(convolution(), image(value)), rtol=1e-4)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_winograd_spreads_a_number_over_its_tiles(value: float) -> None:
    """The transforms add and subtract all pixels of a tile, so that inf - inf is NaN there."""
    found, config = with_template(convolution(), WinogradConfig, image(value))
    wanted = reference(convolution(), image(value))
    tile = config.tile
    reached = np.zeros((12, 12), bool)
    # The tile at t covers the input rows t - 1 to t + tile: with padding 1 and a kernel of 3.
    for row in range(0, 12, tile):
        for column in range(0, 12, tile):
            reads = row - 1 <= 5 <= row + tile and column - 1 <= 6 <= column + tile
            reached[row : row + tile, column : column + tile] = reads
    np.testing.assert_allclose(found[..., ~reached], wanted[..., ~reached], rtol=1e-4)
    assert reached.any() and not reached.all()
    if np.isnan(value):
        assert np.isnan(found[..., 4:7, 5:8]).all()
