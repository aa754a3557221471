"""Bias correction: what rounding a layer's weights adds to its mean output goes out of its bias.

    y' = (W + e) x + b   =>   E[y'] - E[y] = e E[x]   =>   b' = b - e E[x]

Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction",
section 4.2. e x is computed beside each layer on the samples, so that borders, strides and groups
are right without a formula of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import (
    attribute,
    copy_of,
    set_weights,
    showing,
    weights_of,
)
from tvm_neocpu.quantizing.onnx_runs import Sample, runner
from tvm_neocpu.quantizing.rewriting.dequantised import dequantised_weights

# Layers with a bias input of their own.
_CORRECTED = ("Conv", "Gemm")


Shifts = Mapping[str, NDArray[np.float64]]


def bias_shifts(
    model: onnx.ModelProto,
    quantised: onnx.ModelProto,
    layers: Sequence[onnx.NodeProto],
    samples: Sequence[Sample],
) -> Shifts:
    """Layer -> e E[x] of each output channel; ``quantised`` is the QDQ model of the fp32 one."""
    rounded = dequantised_weights(quantised)
    weights = weights_of(model.graph)
    beside = showing(model, [])
    errors, corrected = {}, []
    for node in layers:
        weight = node.input[1]
        if weight not in rounded or not _has_changeable_bias(node, weights):
            continue
        corrected.append(node.name)
        errors[f"{weight}.error"] = rounded[weight] - numpy_helper.to_array(weights[weight])
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        del twin.input[1:]
        twin.input.append(f"{weight}.error")
        twin.name = twin.output[0] = f"{node.name}.shift"
        beside.graph.node.append(twin)
        beside.graph.output.append(onnx.ValueInfoProto(name=twin.output[0]))
    if not corrected:  # nobody runs a network without outputs
        return {}
    set_weights(beside.graph, errors)
    run = runner(beside)
    sums: dict[str, NDArray[np.float64]] = {}
    for sample in samples:
        for name, shift in zip(corrected, run(sample), strict=True):
            mean = shift.mean(axis=(0, *range(2, shift.ndim)), dtype=np.float64)
            sums[name] = sums.get(name, 0.0) + mean
    return {name: total / len(samples) for name, total in sums.items()}


def shift_biases(model: onnx.ModelProto, shifts: Shifts) -> onnx.ModelProto:
    """The fp32 model with the shifts taken out of the biases of these layers.

    Layers without a bias get one.
    """
    shifted = copy_of(model)
    known = weights_of(shifted.graph)
    biases: dict[str, NDArray[np.float32]] = {}
    for node in shifted.graph.node:
        if node.name not in shifts:
            continue
        old = numpy_helper.to_array(known[node.input[2]]) if len(node.input) > 2 else 0.0
        name = f"{node.name}.corrected_bias"
        biases[name] = np.asarray(old - shifts[node.name], np.float32)
        del node.input[2:]
        node.input.append(name)
    set_weights(shifted.graph, biases)
    return shifted


def _has_changeable_bias(node: onnx.NodeProto, known: Mapping[str, onnx.TensorProto]) -> bool:
    """A convolution or dense layer without a bias, or with a constant one of its channels."""
    if node.op_type not in _CORRECTED or attribute(node, "beta", 1.0) != 1.0:
        return False
    if len(node.input) < 3 or not node.input[2]:
        return True
    return node.input[2] in known and len(known[node.input[2]].dims) == 1
