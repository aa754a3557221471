"""Measure the noise that each quantised tensor alone adds at the outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import helper

from tvm_neocpu.core.output_noise import OutputNoise
from tvm_neocpu.quantizing.accuracy.compare import Powers
from tvm_neocpu.quantizing.onnx_graphs import (
    copy_of,
    output_names,
    set_weights,
    weights_of,
)
from tvm_neocpu.quantizing.onnx_runs import Sample, runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import activations_of, layers_of
from tvm_neocpu.quantizing.rewriting.dequantised import dequantised_weights
from tvm_neocpu.quantizing.rewriting.write_qdq import pairs_of

# Tensor -> the names of its scale and its zero point.
Scales = dict[str, tuple[str, str]]


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
    run = runner(model)
    wanted = [run(sample) for sample in samples]
    scales = _scales(model, quantised)
    rounded = dequantised_weights(quantised)
    powers: dict[str, float] = {}
    for scale in dict.fromkeys(scale for scale, _ in scales.values()):
        tensors = [tensor for tensor, (own, _) in scales.items() if own == scale]
        powers[scale] = _power(_rounding(model, quantised, tensors, scales), samples, wanted)
    layers = {node.name: node for node in layers_of(model.graph)}
    needs = {}
    for name in chosen:
        tensors = activations_of(model.graph, {name})
        if name in layers and layers[name].op_type in wide:
            tensors = tensors[:1]
        sources = {scales[tensor][0] for tensor in tensors if tensor in scales}
        if name in layers:
            weight = layers[name].input[1]
            sources.add(weight)
            if weight not in powers:
                part = {w: rounded[w] for w in layers[name].input[1:] if w in rounded}
                changed = copy_of(model)
                set_weights(changed.graph, part)
                powers[weight] = _power(changed, samples, wanted)
        needs[name] = frozenset(sources)
    return OutputNoise(powers, needs, gains)


def _power(
    changed: onnx.ModelProto, samples: Sequence[Sample], wanted: Sequence[list[NDArray[Any]]]
) -> float:
    """Noise over signal of the output that suffers most."""
    run = runner(changed)
    outputs = [Powers() for _ in wanted[0]]
    for sample, exact in zip(samples, wanted, strict=True):
        for powers, one, other in zip(outputs, exact, run(sample), strict=True):
            powers.add(one, other)
    return max(powers.error**2 for powers in outputs)


def _scales(model: onnx.ModelProto, quantised: onnx.ModelProto) -> Scales:
    """Every quantised activation by its name in the fp32 model."""
    outputs = set(output_names(model))
    found = {}
    for tensor, (q, dq) in pairs_of(quantised.graph).items():
        name = dq.output[0] if dq.output[0] in outputs else tensor
        found[name] = (q.input[1], q.input[2])
    return found


def _rounding(
    model: onnx.ModelProto, quantised: onnx.ModelProto, tensors: Sequence[str], scales: Scales
) -> onnx.ModelProto:
    """The fp32 model with a Q and a DQ behind each of these tensors."""
    changed = copy_of(model)
    graph = changed.graph
    constants = weights_of(quantised.graph)
    names = {name for tensor in tensors for name in scales[tensor]}
    graph.initializer.extend(constants[name] for name in sorted(names))
    fed = {value.name for value in graph.input}
    for tensor in tensors:
        # A tensor keeps its name behind the pair: it may be an output. An input cannot.
        is_fed = tensor in fed
        before, after = (tensor, f"{tensor}.read") if is_fed else (f"{tensor}.made", tensor)
        for node in graph.node:
            _rename(node.input if is_fed else node.output, tensor, after if is_fed else before)
        middle = f"{tensor}.level"
        graph.node.append(helper.make_node("QuantizeLinear", [before, *scales[tensor]], [middle]))
        graph.node.append(helper.make_node("DequantizeLinear", [middle, *scales[tensor]], [after]))
    return changed


def _rename(names: Any, old: str, new: str) -> None:
    for place, name in enumerate(names):
        if name == old:
            names[place] = new
