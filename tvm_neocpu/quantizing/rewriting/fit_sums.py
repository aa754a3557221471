"""Weights of 7 bits cut where four products would not fit 16 bits: x86 then adds twice as many.

    (50, 41, 30, 22) -> (46, 37, 27, 18)        255 * 128 <= 32767

Of normally distributed weights one four in a thousand is too large, of trained ones hardly any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tvm_neocpu.quantizing.onnx_graphs import copy_of, set_weights, weights_of
from tvm_neocpu.topi.conv2d_integer.small_weights import (
    LARGEST_SUM,
    SUMMED,
    from_halves,
    in_halves,
    is_small,
    small_bits,
)

Array = NDArray[Any]
BITS = min(SUMMED)
# Channels that the products of a step are taken from.
STEP = 2 * len(SUMMED[BITS])
# What cutting may add to the squared error that rounding makes: one step squared / 12 a weight.
MAX_SHARE = 0.25
ROUNDING = 1 / 12


def fit_sums(model: onnx.ModelProto) -> onnx.ModelProto:
    """The QDQ model with the integer weights of its convolutions cut.

    A layer whose error would grow by more than a quarter stays as it is.
    """
    fitted = copy_of(model)
    constants = weights_of(fitted.graph)
    stored = {
        node.output[0]: node.input[0]
        for node in fitted.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in constants
    }
    changed = {}
    for node in fitted.graph.node:
        if node.op_type != "Conv" or node.input[1] not in stored:
            continue
        name = stored[node.input[1]]
        weight = numpy_helper.to_array(constants[name])
        if weight.ndim != 4 or small_bits(weight) != BITS + 1 or weight.shape[1] % STEP:
            continue
        cut = cut_fours(weight)
        error = np.square(weight.astype("float64") - cut).sum()
        if error <= MAX_SHARE * ROUNDING * weight.size:
            changed[name] = cut
    set_weights(fitted.graph, changed)
    return fitted


def cut_fours(weight: Array) -> Array:
    """int8 weights (K, C, R, S) as near as possible to these, with sums of four that fit."""
    halves = np.moveaxis(in_halves(weight, BITS), 3, 2)
    fours = np.moveaxis(halves, (3, 4), (-2, -1))
    rows = fours.reshape(-1, len(SUMMED[BITS])).astype("int16")
    for sign in (1, -1):
        large = np.maximum(sign * rows, 0).sum(axis=1) > LARGEST_SUM
        rows[large] = sign * _cut(sign * rows[large])
    cut = np.moveaxis(rows.reshape(fours.shape), (-2, -1), (3, 4))
    result = from_halves(np.moveaxis(cut, 2, 3)).astype(weight.dtype)
    assert is_small(result, BITS), "that is what was cut for"
    return result


def _cut(rows: Array) -> Array:
    """Positive elements made smaller by one after the other, those first that were cut least."""
    cut = rows.copy()
    while len(large := np.flatnonzero(np.maximum(cut, 0).sum(axis=1) > LARGEST_SUM)):
        taken = rows[large] - cut[large]
        order = np.where(cut[large] > 0, taken.astype("int32") * 256 - cut[large], 1 << 20)
        cut[large, order.argmin(axis=1)] -= 1
    return cut
