"""A small network to build plans for, and a comparison with made-up figures."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx import helper

from tvm_neocpu import pipeline
from tvm_neocpu.contrib.peers.compare import Timing
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.plans.result import NetworkPlans, PlanResult, scheme_times
from tvm_neocpu.contrib.plans.runner import CallTime
from tvm_neocpu.contrib.plans.spread import GLOBAL, GREEDY, PricedPlan
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

MakeModel = Callable[..., onnx.ModelProto]
CHANNELS = 64
CONV = ConvWorkload(1, 16, 8, 8, 16, (1, 1))
CONFIG = ConvConfig(16, 16, 1)
MOVE = TransformWorkload(1, 16, 8, 8, 16, 0)
CALLS = (
    CallTime("conv", (CONV, CONFIG), 2, 3e-3),
    CallTime("fused_conv", (CONV, CONFIG), 1, 2e-3),
    CallTime("move", (MOVE, TransformConfig()), 1, 4e-4),
    CallTime("pool", None, 3, 5e-4),
)


@pytest.fixture(scope="module")
def model(make_model: MakeModel) -> onnx.ModelProto:
    """A residual block, then pooling: (1, 64, 28, 28) -> (1, 64, 28, 28)."""
    nodes = [
        helper.make_node("Conv", ["data", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "a"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["e"], pads=[0, 0, 0, 0]),
        helper.make_node(
            "MaxPool", ["e"], ["out"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]
        ),
    ]
    weights = {f"w{k}": (CHANNELS, CHANNELS, n, n) for k, n in enumerate((3, 3, 1))}
    shape = (1, CHANNELS, 28, 28)
    return make_model(nodes, shape=shape, weights=weights, out_shape=shape)


@pytest.fixture(scope="module")
def network(model: onnx.ModelProto) -> Network:
    return Network("block", model, {"data": (1, CHANNELS, 28, 28)}, threads=1)


@pytest.fixture(scope="module")
def graph(model: onnx.ModelProto) -> ConvGraph:
    cpu = parse_target(None).cpu
    mod, _ = from_onnx(model)
    return ExtractConvGraph(cpu)(pipeline.fold(mod, cpu))


@pytest.fixture
def compared() -> NetworkPlans:
    """Three plans with made-up times: the global plan, the greedy plan, a random plan."""
    plans = (
        plan_result((GLOBAL,), 6e-3, (5e-3, 4e-3, 6e-3)),
        plan_result((GREEDY,), 7e-3, (6e-3, 6e-3, 9e-3)),
        plan_result(("random 100%",), 9e-3, (7e-3, 7e-3, 7e-3)),
    )
    schemes = scheme_times(CALLS, {(CONV, CONFIG): 1e-3})
    return NetworkPlans("net", "g", plans, CALLS, schemes)


def plan_result(names: tuple[str, ...], predicted: float, runs: tuple[float, ...]) -> PlanResult:
    priced = PricedPlan(names, Plan("g", {}, seconds=predicted - 5e-4), predicted / 2, 0.0)
    return PlanResult(priced, predicted, Timing(runs, 0.0))
