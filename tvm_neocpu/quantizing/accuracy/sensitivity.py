"""Measure the noise that each quantised tensor alone adds at the outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tvm_neocpu.core.output_noise import OutputNoise
from tvm_neocpu.quantizing.accuracy.compare import Powers
from tvm_neocpu.quantizing.onnx_graphs import (
    copy_of,
    fed_weights,
    output_names,
    weights_of,
)
from tvm_neocpu.quantizing.onnx_runs import Sample, runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import activations_of, layers_of
from tvm_neocpu.quantizing.rewriting.dequantised import dequantised_weights
from tvm_neocpu.quantizing.rewriting.write_qdq import pairs_of

# Tensor -> the names of its scale and its zero point.
Scales = dict[str, tuple[str, str]]
NO_WEIGHTS: Mapping[str, NDArray[Any]] = MappingProxyType({})


def measure_noise(
    model: onnx.ModelProto,
    quantised: onnx.ModelProto,
    chosen: Collection[str],
    gains: Mapping[str, float],
    samples: Sequence[Sample],
    wide: Collection[str] = (),
) -> OutputNoise:
    """One run of the samples for each source: a weight with its bias, or a scale's activations.

    ``quantised`` has the operations ``chosen`` in int8. Powers are relative to an output's signal;
    of several outputs the worst counts. The results of ``wide`` operators are rounded only where
    an operation in int8 reads them: they are that one's need.
    """
    low = set(chosen)
    layers = {node.name: node for node in layers_of(model.graph) if node.name in low}
    scales, rounded = _scales(model, quantised), dequantised_weights(quantised)
    parts = {
        node.input[1]: {w: rounded[w] for w in node.input[1:] if w in rounded}
        for node in layers.values()
    }
    switched = _Switched(model, quantised, scales, {w for part in parts.values() for w in part})
    wanted = [switched.run(sample) for sample in samples]

    def power(on: str = "", weights: Mapping[str, NDArray[Any]] = NO_WEIGHTS) -> float:
        """Noise over signal of the output that suffers most."""
        outputs = [Powers() for _ in wanted[0]]
        for sample, exact in zip(samples, wanted, strict=True):
            found = switched.run(sample, on, weights)
            for powers, one, other in zip(outputs, exact, found, strict=True):
                powers.add(one, other)
        return max(powers.error**2 for powers in outputs)

    powers = {scale: power(scale) for scale in switched.scales}
    powers |= {weight: power(weights=part) for weight, part in parts.items()}
    needs = {}
    for name in chosen:
        tensors = activations_of(model.graph, {name})
        if name in layers and layers[name].op_type in wide:
            tensors = tensors[:1]
        sources = {scales[tensor][0] for tensor in tensors if tensor in scales}
        if name in layers:
            sources.add(layers[name].input[1])
        needs[name] = frozenset(sources)
    return OutputNoise(powers, needs, gains)


class _Switched:
    """The fp32 model with a switch for each scale, and weights that every run may replace.

    One session for all sources: a network's weights would be copied and packed for each.
    ``scales`` are the switches' names.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        quantised: onnx.ModelProto,
        scales: Scales,
        weights: Collection[str],
    ) -> None:
        changed = copy_of(model)
        self.scales = tuple(dict.fromkeys(scale for scale, _ in scales.values()))
        _add_switches(changed.graph, weights_of(quantised.graph), scales)
        self._weights = fed_weights(changed.graph, weights)
        self._run = runner(changed)

    def run(
        self, sample: Sample, on: str = "", weights: Mapping[str, NDArray[Any]] = NO_WEIGHTS
    ) -> list[NDArray[Any]]:
        """The outputs with one scale's activations rounded, or with other weights."""
        switches = {_switch(scale): np.array(scale == on) for scale in self.scales}
        return self._run({**sample, **switches, **self._weights, **weights})


def _add_switches(
    graph: onnx.GraphProto, constants: Mapping[str, onnx.TensorProto], scales: Scales
) -> None:
    """Behind every tensor of these a Q and a DQ, and a choice between their result and it."""
    fed = {value.name for value in graph.input}
    for scale, zero in dict.fromkeys(scales.values()):
        graph.initializer.extend([constants[scale], constants[zero]])
    for scale in dict.fromkeys(scale for scale, _ in scales.values()):
        kind = TensorProto.BOOL
        graph.input.append(helper.make_tensor_value_info(_switch(scale), kind, []))
    added = []
    for tensor, names in scales.items():
        # A tensor keeps its name behind the pair: it may be an output. An input cannot.
        is_fed = tensor in fed
        before, after = (tensor, f"{tensor}.read") if is_fed else (f"{tensor}.made", tensor)
        for node in graph.node:
            _rename(node.input if is_fed else node.output, tensor, after if is_fed else before)
        level, whole = f"{tensor}.level", f"{tensor}.rounded"
        added += [
            helper.make_node("QuantizeLinear", [before, *names], [level]),
            helper.make_node("DequantizeLinear", [level, *names], [whole]),
            helper.make_node("Where", [_switch(names[0]), whole, before], [after]),
        ]
    graph.node.extend(added)


def _switch(scale: str) -> str:
    return f"{scale}.on"


def _scales(model: onnx.ModelProto, quantised: onnx.ModelProto) -> Scales:
    """Every quantised activation by its name in the fp32 model."""
    outputs = set(output_names(model))
    found = {}
    for tensor, (q, dq) in pairs_of(quantised.graph).items():
        name = dq.output[0] if dq.output[0] in outputs else tensor
        found[name] = (q.input[1], q.input[2])
    return found


def _rename(names: Any, old: str, new: str) -> None:
    for place, name in enumerate(names):
        if name == old:
            names[place] = new
