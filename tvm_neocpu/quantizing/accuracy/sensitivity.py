"""Measure the noise that each quantised tensor alone adds at the outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.quantizing.accuracy.output_powers import Change, noise_powers
from tvm_neocpu.quantizing.accuracy.pieces import Pieces, Rounding, Values
from tvm_neocpu.quantizing.onnx_graphs import output_names, weights_of
from tvm_neocpu.quantizing.onnx_runs import Sample
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
    low = set(chosen)
    layers = {node.name: node for node in layers_of(model.graph) if node.name in low}
    scales, rounded = _scales(model, quantised), dequantised_weights(quantised)
    parts = {
        node.input[1]: {w: rounded[w] for w in node.input[1:] if w in rounded}
        for node in layers.values()
    }
    constants, roundings = weights_of(quantised.graph), dict[str, Rounding]()
    for tensor, (scale, zero) in scales.items():
        rounds = _rounding(constants, scale, zero)
        roundings[scale] = {**roundings.get(scale, {}), tensor: rounds}
    operands = {name for part in parts.values() for name in part}
    pieces = Pieces(model, scales, operands, (), samples[0])
    powers = noise_powers(
        pieces,
        samples,
        {
            **{scale: _rounds(rounding) for scale, rounding in roundings.items()},
            **{weight: _replaces(part) for weight, part in parts.items()},
        },
    )
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


def _rounds(rounding: Rounding) -> Change:
    return lambda pieces, exact: pieces.changed(exact, rounding)


def _replaces(operands: Values) -> Change:
    return lambda pieces, exact: pieces.changed(exact, operands=operands)


def _rounding(
    constants: Mapping[str, onnx.TensorProto], scale: str, zero: str
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Q and DQ: to the nearest step, ties to even, within the type of the zero point."""
    step, zero_point = (numpy_helper.to_array(constants[name]) for name in (scale, zero))
    limits = np.iinfo(zero_point.dtype)
    low, high = (float(limit) - float(zero_point) for limit in (limits.min, limits.max))

    def rounded(values: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = values / step
        np.rint(found, out=found)
        np.clip(found, low, high, out=found)
        found *= step
        return found

    return rounded


def _scales(model: onnx.ModelProto, quantised: onnx.ModelProto) -> Scales:
    """Every quantised activation by its name in the fp32 model."""
    outputs = set(output_names(model))
    found = {}
    for tensor, (q, dq) in pairs_of(quantised.graph).items():
        name = dq.output[0] if dq.output[0] in outputs else tensor
        found[name] = (q.input[1], q.input[2])
    return found
