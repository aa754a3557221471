"""Which operations become calls of their own: told from the folded module, seen when built."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tests.support.relax_net import module
from tvm_neocpu.choose_plan import search_plan
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, SweepKind
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.folded_network import FoldedNetwork
from tvm_neocpu.pipeline import apply_plan, compute_templates
from tvm_neocpu.relay_passes.lowering.lowered_before import LoweredBefore
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.planning.find_sweeps import SweepFinder
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.database.history import History

op = relax.op
CPU = Cpu("haswell", AVX2, cores=1)
SHAPE = (1, 16, 6, 6)


def const(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


def conv(x: relax.Expr, outputs: int = 16, size: int = 3) -> relax.Expr:
    weight = const(outputs, int(x.ty.shape[1]), size, size)
    return op.nn.conv2d(x, weight, padding=size // 2)


def epilogue(emit, x):
    a = emit(conv(x))
    b = emit(op.nn.relu(emit(op.add(a, const(16, 1, 1)))))
    return conv(b)


def residual(emit, x):
    a = emit(conv(x))
    return op.nn.relu(emit(op.add(emit(conv(a)), a)))


def scaled_residual(emit, x):
    """As codes that a layer reads are dequantised for a sum, too."""
    a = emit(conv(x))
    scaled = emit(op.multiply(emit(op.add(a, const(16, 1, 1))), relax.const(2.0)))
    return op.nn.relu(emit(op.add(scaled, emit(conv(a)))))


def two_scaled(emit, x):
    """One function scales and adds what others read."""
    a, b = emit(conv(x)), emit(conv(x))
    c = emit(op.add(emit(op.multiply(a, relax.const(2.0))), emit(op.nn.relu(b))))
    return op.concat([emit(conv(a)), emit(conv(b)), emit(conv(c))], axis=1)


def swish(emit, x):
    a = emit(conv(x))
    return conv(emit(op.multiply(a, emit(op.sigmoid(a)))))


def two_outputs_added(emit, x):
    """Both are read elsewhere, so that the addition is fused with neither."""
    a, b = emit(conv(x)), emit(conv(x))
    c = emit(op.add(a, b))
    return op.concat([emit(conv(a)), emit(conv(b)), emit(conv(c))], axis=1)


def pooled(emit, x):
    a = emit(op.nn.relu(emit(conv(x))))
    return op.nn.max_pool2d(a, (3, 3), (2, 2), (1, 1, 1, 1))


def read_through(emit, x):
    a, b = emit(conv(x)), emit(conv(x))
    return conv(emit(op.nn.relu(emit(op.concat([a, b], axis=1)))), size=1)


def dense_block(emit, x):
    """Every concat has two readers; flat, each has one."""
    a = emit(op.concat([x, emit(conv(x))], axis=1))
    b = emit(op.concat([a, emit(conv(a))], axis=1))
    return conv(b)


def deep_block(emit, x):
    """As DenseNet's blocks: concats in each other, each read by the next one and by a layer."""
    x = emit(conv(x))
    for _ in range(4):
        x = emit(op.concat([x, emit(conv(emit(op.nn.relu(x)), size=1))], axis=1))
    return conv(emit(op.nn.relu(x)), size=1)


def unread_block(emit, x):
    """Only the last concat has a reader once it is flat."""
    a, b, c = emit(conv(x)), emit(conv(x)), emit(conv(x))
    inner = emit(op.concat([emit(op.concat([a, b], axis=1)), c], axis=1))
    return conv(emit(op.nn.relu(inner)), size=1)


def copied(emit, x):
    a, b = emit(conv(x)), emit(conv(x))
    c = emit(op.concat([a, b], axis=1))
    return op.concat([emit(conv(c)), emit(conv(c, size=1))], axis=1)


def mean_of(emit, x):
    return op.mean(emit(conv(x)), [2, 3])


CASES: dict[str, tuple[Callable[..., relax.Expr], list[str], list[str]]] = {
    "epilogue": (epilogue, [], []),
    "residual": (residual, [], []),
    "scaled residual": (scaled_residual, [], []),
    "two scaled": (two_scaled, ["move", "move"], []),
    "swish": (swish, [], []),
    "sum": (two_outputs_added, ["move", "move"], []),
    "pool": (pooled, ["pool"], []),
    "read through": (read_through, [], ["move"]),
    "dense block": (dense_block, [], ["move", "move"]),
    "deep block": (deep_block, [], ["move"] * 5),  # the first one is a relu
    "unread block": (unread_block, [], ["move"]),
    "copied": (copied, ["move", "move"], []),
    "mean": (mean_of, ["reduce"], []),
}


def network_of(build: Callable[..., relax.Expr]) -> FoldedNetwork:
    mod = module(build, SHAPE)
    target = parse_target("llvm -mcpu=haswell")
    return FoldedNetwork(mod, ExtractConvGraph(CPU)(mod), CPU, target.target, ())


def kinds(graph: ConvGraph) -> tuple[list[str], list[str]]:
    own = [sweep.kind.value for node in graph.nodes for sweep in node.sweeps]
    read = [sweep.kind.value for node in graph.nodes for sweep in node.read_sweeps]
    return sorted(own), sorted(read)


def built(network: FoldedNetwork, plan: Plan) -> set[SweepWorkload]:
    """The functions without a template of the fused network; each must be a sweep of the graph."""
    graph, finder = network.graph, SweepFinder(network.graph)
    altered = apply_plan(network.module, plan, CPU)
    fused = compute_templates(altered, plan.by_layout(graph), CPU, LoweredBefore())
    found = set()
    for var, func in fused.functions.items():
        if var.name_hint.startswith("reshape"):  # a view
            continue
        if isinstance(func, tirx.PrimFunc) and anchor_of(Schedule(func)) is None:
            sweep = finder.find(var.name_hint, func)
            assert sweep is not None, f"{var.name_hint} is no sweep that the graph knows"
            found.add(sweep)
    return found


@pytest.mark.parametrize("name", CASES)
def test_sweeps_are_told_before_fusion(name: str) -> None:
    build, own, read = CASES[name]
    network = network_of(build)
    assert kinds(network.graph) == (own, read)
    plan = search_plan(network.graph, CPU, History(CPU.name, 1))
    one_layout = {conv.id: layout_of_16(conv.workload) for conv in network.graph.convs}
    joins = {join: Layout(16) for join in network.graph.joins}
    expected = {sweep for node in network.graph.nodes for sweep in node.sweeps}
    assert len(built(network, plan)) == len(expected)
    blocked = built(network, Plan(network.graph.hash, one_layout, joins))
    assert blocked == {SweepWorkload.of(sweep, Layout(16)) for sweep in expected}


def layout_of_16(workload):
    """A direct config that reads and writes blocks of 16 channels, and takes a prologue."""
    return next(
        c.config
        for c in ranked(workload, CPU)
        if (c.reads, c.writes) == (Layout(16), Layout(16)) and c.config.template == "conv2d_NCHWc"
    )


def test_a_pool_knows_its_window() -> None:
    (sweep,) = (s for n in network_of(pooled).graph.nodes for s in n.sweeps)
    assert (sweep.kind, sweep.taps) == (SweepKind.POOL, 9)
    assert (sweep.inputs, sweep.output) == ((SHAPE,), (1, 16, 3, 3))


def test_a_flat_concat_reads_all_parts() -> None:
    reads = [s.inputs for n in network_of(dense_block).graph.nodes for s in n.read_sweeps]
    assert sorted(map(len, reads)) == [2, 3]
