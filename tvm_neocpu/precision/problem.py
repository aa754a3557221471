"""The layout problem of an fp32 network whose layers may be in lower precision, and their noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from onnx import numpy_helper

from tvm_neocpu.choose_plan import choose_plan, known_costs
from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.core.accuracy.precision import INT8, NAMES
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import BY_DTYPE
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, Shape4, Sweep, SweepKind
from tvm_neocpu.core.network.layout import NCHW
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import FP32, U8S8
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes
from tvm_neocpu.global_search.network.precision_graph import (
    HalfPrecision,
    LowPrecision,
    PrecisionGraph,
    build_precision_graph,
)
from tvm_neocpu.pipeline import fold
from tvm_neocpu.precision.mixed_network import Mix, MixedNetwork
from tvm_neocpu.quantizing.accuracy.half_noise import in_type
from tvm_neocpu.quantizing.onnx_graphs import weights_of
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.store_half_weights import (
    gains,
    in_half,
    noise_growth,
    rounds_data,
    storable,
)
from tvm_neocpu.topi.table import implementations
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.sweep_costs import SweepCosts


@dataclass(frozen=True)
class PrecisionProblem:
    """``names`` are the ONNX layers behind the graph's nodes, by id.

    ``noise``: of layers in int8. ``halves``: layer -> type -> its noise power in half precision.
    ``fp32``: seconds of the plan that a build in fp32 follows.
    """

    precision_graph: PrecisionGraph
    names: Mapping[str, str]
    noise: OutputNoise
    halves: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    fp32: float = float("inf")

    def layers(self, choice: Sequence[int]) -> list[str]:
        """The ONNX names of the layers in int8 under a choice."""
        return sorted(self.names[id] for id in self.precision_graph.low(choice))

    def in_half(self, choice: Sequence[int]) -> dict[str, str]:
        """Those in half precision, and the types of their weights."""
        found = self.precision_graph.types(choice)
        types = {self.names[id]: each.weight for id, each in found.items()}
        return {name: dtype for name, dtype in sorted(types.items()) if dtype in BY_DTYPE}

    def in_fp32(self) -> PrecisionProblem:
        """The same where all layers stay in fp32."""
        return replace(self, precision_graph=self.precision_graph.in_fp32())

    def without_integers(self) -> PrecisionProblem:
        """The same where none is in int8."""
        return replace(self, precision_graph=self.precision_graph.without_integers())

    def alone(self) -> dict[str, dict[str, float]]:
        """Layer -> precision -> the noise power of that layer alone, of those that may be in it."""
        found = {
            name: {NAMES[dtype]: power for dtype, power in powers.items()}
            for name, powers in self.halves.items()
        }
        for name in self.noise.needs.keys() & set(self.names.values()):
            found.setdefault(name, {})[INT8] = self.noise.of([name])
        return found

    def power(self, mix: Mix) -> float:
        """The predicted noise power at the outputs."""
        return self.noise.of(mix.int8) + sum(self.halves[n][dtype] for n, dtype in mix.half.items())


def precision_problem(
    network: MixedNetwork, shapes: Mapping[str, Sequence[int]], cpu: Cpu, history: History
) -> PrecisionProblem:
    """Layers that a pass makes or merges have no name of their own and stay fp32."""
    mod, _ = from_onnx(network.ready, shapes)
    graph = ExtractConvGraph(cpu)(fold(mod, cpu, whole_layers=True))
    fixed = resolve_shapes(network.ready.graph, shapes)
    found = OnnxNodes(network.ready, fixed).names_of(node.workload for node in graph.nodes)
    weights = {node.name: node.input[1] for node in network.layers}
    both = zip(graph.nodes, found, strict=True)
    names = {node.id: name for node, name in both if name in weights}
    schemes, prices, sweeps = known_costs(graph, cpu, history)

    def schemes_of(
        ids: Sequence[str], change: Callable[[Workload], Workload | None]
    ) -> dict[str, tuple[Candidate, ...]]:
        """Those of the layers in another precision."""
        changed = {id: change(graph.by_id[id].workload) for id in ids}  # type: ignore[arg-type]
        nodes = [replace(n, workload=changed.get(n.id, n.workload)) for n in graph.nodes]
        other, *_ = known_costs(ConvGraph(tuple(nodes), graph.edges), cpu, history)
        return {
            id: tuple(replace(scheme, types=workload.types) for scheme in other[workload])
            for id, workload in changed.items()
            if workload is not None
        }

    noise = network.noise
    may = [
        id
        for id, name in names.items()
        if name in noise.needs and _in_int8(graph.by_id[id].workload, cpu) is not None
    ]
    low = {
        id: LowPrecision(
            own,
            noise.powers[weights[names[id]]],
            _read(noise, names[id], weights[names[id]]),
        )
        for id, own in schemes_of(may, lambda workload: _in_int8(workload, cpu)).items()
    }
    powers = _half_powers(network, graph, names, cpu)
    halves: dict[str, list[HalfPrecision]] = {}
    for dtype in network.half_types:
        ids = [id for id, name in names.items() if dtype in powers.get(name, ())]
        own = schemes_of(ids, partial(in_half, dtype=dtype))
        for id, found_schemes in own.items():
            half = HalfPrecision(found_schemes, powers[names[id]][dtype])
            halves.setdefault(id, []).append(half)
    tensors = {layer.reads: noise.powers.get(layer.reads, 0.0) for layer in low.values()}
    built = build_precision_graph(
        graph,
        schemes,
        prices,
        low,
        tensors,
        lambda shape: conversion_seconds(shape, sweeps),
        sweeps,
        halves,
    )
    return PrecisionProblem(built, names, noise, powers, choose_plan(graph, cpu, history).seconds)


def conversion_seconds(shape: Shape4, sweeps: SweepCosts) -> float:
    """A pass over a tensor between uint8 and float32, priced as the sweep that a build makes."""
    return sweeps.price(Sweep(SweepKind.MOVE, (shape,), shape), NCHW)


def _half_powers(
    network: MixedNetwork, graph: ConvGraph, names: Mapping[str, str], cpu: Cpu
) -> dict[str, dict[str, float]]:
    """The noise of every layer in each type of half precision that makes it faster."""
    values = weights_of(network.ready.graph)
    weights = {node.name: values[node.input[1]] for node in network.layers}
    found: dict[str, list[str]] = {}
    rounding: dict[str, bool] = {}
    growths: dict[tuple[str, str], float] = {}
    for id, name in names.items():
        workload = graph.by_id[id].workload
        assert workload is not None, "a layer with a name has a workload"
        for dtype in network.half_types:
            narrow = in_half(workload, dtype) if workload.types == FP32 else workload
            if not gains(workload, narrow.types, cpu):
                continue
            weight = numpy_helper.to_array(weights[name])
            if storable(weight, workload, BY_DTYPE[dtype], cpu) is None:
                continue
            found.setdefault(name, []).append(dtype)
            growths[name, dtype] = noise_growth(narrow, cpu)
            rounding[name] = rounding.get(name, False) or rounds_data(narrow, cpu)
    powers = network.bf16_powers(rounding, growths)
    return {
        name: {dtype: in_type(powers[name], dtype) * growths[name, dtype] for dtype in dtypes}
        for name, dtypes in found.items()
    }


def _in_int8(workload: Workload | None, cpu: Cpu) -> Workload | None:
    """The workload with uint8 data and int8 weights; ``None`` where no kernel computes it."""
    if workload is None or workload.types != FP32:
        return None
    changed: Workload = replace(workload, types=U8S8)  # type: ignore[type-var]
    return changed if implementations(changed, cpu) else None


def _read(noise: OutputNoise, name: str, weight: str) -> str:
    """The source of noise that the layer's data are."""
    return min(noise.needs[name] - {weight}, default="")
