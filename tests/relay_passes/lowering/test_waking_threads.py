"""Small networks run on one core."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from one_function import const, module_of
from tvm import relax
from tvm.relax.op.nn import conv2d, relu

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import search_plan
from tvm_neocpu.contrib.explain.explain_model import explain_model
from tvm_neocpu.contrib.model_zoo import zoo
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.pipeline import fold, lower
from tvm_neocpu.relay_passes.lowering.waking_threads import (
    SAID,
    elementwise_seconds,
    gains_less_than_waking,
    may_be_small,
)
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import History, apply_history_best
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning

TWO = parse_target("llvm -mcpu=znver3").cpu.with_cores(2)


@pytest.fixture(autouse=True)
def small_networks_on_all_cores() -> None:
    """The rule that other tests go without is tested here."""


def lenet() -> tvm.IRModule:
    model: onnx.ModelProto = zoo.build("lenet")
    return relay.frontend.from_onnx(model, {"data": zoo.input_shape("lenet")})[0]


def forks(mod: tvm.IRModule) -> int:
    return mod.script().count("T.parallel(")


def test_lenet_wakes_nobody() -> None:
    assert forks(lower(lenet(), TWO)) == 0


def test_where_waking_costs_nothing_lenet_forks() -> None:
    assert forks(lower(lenet(), replace(TWO, wake_up=0.0))) > 0


def test_a_log_that_serves_one_core_is_no_useless_one(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    one, path = TWO.with_cores(1), tmp_path / "x.log"
    graph = ExtractConvGraph(one)(fold(lenet(), one))
    plan = search_plan(graph, one, History(one.name, 1))
    TuningLog(path, one.features).append_plan(plan, graph, one.name, 1)
    with apply_history_best(path):
        assert forks(lower(lenet(), TWO)) == 0
        assert not [each for each in recwarn if each.category is TuningLogWarning]
        with pytest.warns(TuningLogWarning, match="at thread count 2, only at 1: ignored"):
            assert forks(lower(lenet(), replace(TWO, wake_up=0.0))) > 0


def test_a_log_that_serves_all_cores_is_no_useless_one(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    graph = ExtractConvGraph(TWO)(fold(lenet(), TWO))
    plan = search_plan(graph, TWO, History(TWO.name, 2))
    log = TuningLog(tmp_path / "x.log", TWO.features)
    for node in graph.convs:
        log.append(Record(node.workload, plan.configs[node.id], (1e-6,), TWO.name, 2))
    with apply_history_best(log.path):
        assert forks(lower(lenet(), replace(TWO, wake_up=5e-6))) > 0
    assert not [each for each in recwarn if each.category is TuningLogWarning]


@pytest.mark.parametrize(("cpu", "small"), [(TWO, True), (TWO.with_cores(1), False)])
def test_what_may_be_small(cpu: Cpu, small: bool) -> None:
    assert may_be_small(5 * TWO.wake_up, cpu) == small
    assert not may_be_small(50 * TWO.wake_up, cpu)


def test_elements_are_counted_where_they_are_known() -> None:
    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return relu(b.emit(conv2d(x, const(np.ones((4, 3, 1, 1), "float32")))))

    known = elementwise_seconds(module_of((1, 3, 8, 8), build), TWO)
    assert 0 < known < 1e-5
    two = module_of((1, 3, 8, 8), build)
    two["other"] = two["main"].with_attr("global_symbol", "other")
    assert elementwise_seconds(two, TWO) == math.inf


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: relax.op.nn.softmax(x, axis=-1),
        lambda x: relax.op.image.resize2d(x, relax.ShapeExpr([48, 16]), layout="NCHW"),
    ],
    ids=["softmax of short rows", "resize"],
)
def test_what_is_no_vectors_wakes_threads(operation: Callable[[relax.Expr], relax.Call]) -> None:
    """They were priced as vectors: some of 150 to 230 us ran on one core."""
    mod = module_of((1, 64, 64, 12), lambda b, x: operation(x))
    assert forks(lower(mod, TWO)) > 0


@pytest.mark.parametrize("reduce", [relax.op.max, relax.op.sum, relax.op.mean, relax.op.argmax])
def test_reductions_are_priced_by_what_they_read(reduce: Callable[..., relax.Expr]) -> None:
    """Their results alone were counted: 0.1 us for 256 images of 28 x 28."""

    def seconds(channels: int) -> float:
        mod = module_of((1, channels, 28, 28), lambda b, x: reduce(x, 1))
        return elementwise_seconds(mod, TWO)

    assert seconds(256) == pytest.approx(256 * seconds(1))


def lone_pool(then: bool) -> tvm.IRModule:
    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        pool = relax.op.nn.max_pool2d(x, [2, 2], strides=[2, 2])
        return relu(b.emit(pool)) if then else pool

    return module_of((1, 192, 28, 28), build)


def test_a_lone_operation_wakes_threads_sooner() -> None:
    """Both save some 13 to 16 us of the 20 that a wake-up takes."""
    zen4 = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu.with_cores(2)
    assert not gains_less_than_waking(lone_pool(then=False), 0.0, 0.0, zen4)
    assert gains_less_than_waking(lone_pool(then=True), 0.0, 0.0, zen4)
    assert forks(lower(lone_pool(then=False), zen4)) > 0


def test_explain_says_so() -> None:
    model = zoo.build("lenet")
    shapes = {"data": zoo.input_shape("lenet")}
    assert SAID in explain_model("lenet", model, shapes, TWO).notes
    eager = replace(TWO, wake_up=0.0)
    assert SAID not in explain_model("lenet", model, shapes, eager).notes
