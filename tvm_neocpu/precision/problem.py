"""The layout problem of an fp32 network whose layers may be in int8, from a quantiser's noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_neocpu.core.conv_graph import ConvGraph, Shape4, Sweep, SweepKind
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import NCHW
from tvm_neocpu.core.output_noise import OutputNoise
from tvm_neocpu.core.types import FP32, U8S8
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.onnx_model import resolve_shapes
from tvm_neocpu.frontend.onnx_nodes import OnnxNodes
from tvm_neocpu.global_search.network.precision_graph import (
    LowPrecision,
    PrecisionGraph,
    build_precision_graph,
)
from tvm_neocpu.pipeline import fold, known_costs
from tvm_neocpu.quantizing.quantiser import Quantiser
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.topi.table import implementations
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.sweep_costs import SweepCosts


@dataclass(frozen=True)
class PrecisionProblem:
    """``names`` are the ONNX layers behind the nodes that may be in int8, by id."""

    precision_graph: PrecisionGraph
    names: Mapping[str, str]

    def layers(self, choice: Sequence[int]) -> list[str]:
        """The ONNX names of the layers in int8 under a choice."""
        return sorted(self.names[id] for id in self.precision_graph.low(choice))


def precision_problem(
    quantiser: Quantiser, shapes: Mapping[str, Sequence[int]], cpu: Cpu, history: History
) -> PrecisionProblem:
    """Layers that a pass makes or merges have no name of their own and stay fp32."""
    mod, _ = from_onnx(quantiser.ready, shapes)
    graph = ExtractConvGraph(cpu)(fold(mod, cpu))
    fixed = resolve_shapes(quantiser.ready.graph, shapes)
    found = OnnxNodes(quantiser.ready, fixed).names_of(node.workload for node in graph.nodes)
    noise, weights = quantiser.noise, {node.name: node.input[1] for node in quantiser.layers}
    names = {
        node.id: name
        for node, name in zip(graph.nodes, found, strict=True)
        if name in noise.needs and name in weights and _in_int8(node.workload, cpu) is not None
    }
    candidates, prices, sweeps = known_costs(graph, cpu, history)
    schemes, *_ = known_costs(_integer_graph(graph, names, cpu), cpu, history)
    low = {}
    for id, name in names.items():
        workload = _in_int8(graph.by_id[id].workload, cpu)
        assert workload is not None
        own = tuple(replace(scheme, types=U8S8) for scheme in schemes[workload])
        low[id] = LowPrecision(own, noise.powers[weights[name]], _read(noise, name, weights[name]))
    tensors = {layer.reads: noise.powers.get(layer.reads, 0.0) for layer in low.values()}
    built = build_precision_graph(
        graph,
        candidates,
        prices,
        low,
        tensors,
        lambda shape: conversion_seconds(shape, sweeps),
        sweeps,
    )
    return PrecisionProblem(built, names)


def conversion_seconds(shape: Shape4, sweeps: SweepCosts) -> float:
    """A pass over a tensor between uint8 and float32, priced as the sweep that a build makes."""
    return sweeps.price(Sweep(SweepKind.MOVE, (shape,), shape), NCHW)


def _integer_graph(graph: ConvGraph, names: Mapping[str, str], cpu: Cpu) -> ConvGraph:
    """The same network with those layers' workloads in int8, to ask what is known of these."""
    nodes = [
        replace(node, workload=_in_int8(node.workload, cpu)) if node.id in names else node
        for node in graph.nodes
    ]
    return ConvGraph(tuple(nodes), graph.edges)


def _in_int8(workload: Workload | None, cpu: Cpu) -> Workload | None:
    """The workload with uint8 data and int8 weights; ``None`` where no kernel computes it."""
    if workload is None or workload.types != FP32:
        return None
    changed: Workload = replace(workload, types=U8S8)  # type: ignore[type-var]
    return changed if implementations(changed, cpu) else None


def _read(noise: OutputNoise, name: str, weight: str) -> str:
    """The source of noise that the layer's data are."""
    return min(noise.needs[name] - {weight}, default="")
