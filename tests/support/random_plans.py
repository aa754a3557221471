"""Any plan for a network: layouts and schedules must never change what it computes."""

from __future__ import annotations

import math

import numpy as np
import onnx
import tvm
from numpy.typing import NDArray
from tvm import relax

from tvm_neocpu.codegen.network import compile_network
from tvm_neocpu.core.network.conv_graph import ConvGraph, NodeKind
from tvm_neocpu.core.network.layout import Layout, factors
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import apply_plan, fold, lower_altered
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.table import space_of
from tvm_neocpu.tuning.group_candidates import with_groups

TARGET = parse_target()
CPU = TARGET.cpu


def any_plan(graph: ConvGraph, seed: int) -> Plan:
    """Any config for every convolution, any layout that fits for every join."""
    rng = np.random.default_rng(seed)
    configs, joins = {}, {}
    for node in graph.nodes:
        if node.kind is NodeKind.CONV:
            space = space_of(node.workload, CPU)
            configs[node.id] = space[rng.integers(len(space))]
        elif node.kind is NodeKind.JOIN:
            fitting = factors(math.gcd(*node.join_channels)) if node.join_channels else ()
            joins[node.id] = Layout(int(rng.choice((0, *fitting))))
    return Plan(graph.hash, configs, joins)


def ours_of_any_plan(
    model: onnx.ModelProto, data: NDArray[np.float32], seed: int
) -> list[NDArray[np.float32]]:
    """The network's outputs under such a plan."""
    mod = fold(from_onnx(model)[0], CPU)
    graph = ExtractConvGraph(CPU)(mod)
    plan = any_plan(graph, seed)
    groups = with_groups(plan, graph, CPU).group_bands(graph)
    lowered = lower_altered(apply_plan(mod, plan, CPU), plan.by_layout(graph), CPU, groups)
    machine = relax.VirtualMachine(compile_network(lowered, TARGET.target), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(data))
    tensors = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
    return [tensor.numpy() for tensor in tensors]
