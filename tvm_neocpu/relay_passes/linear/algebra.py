"""The algebra behind :class:`FoldLinearOps`: on arrays alone, in double precision.

CDUCA (Wu et al. 2020, graph engine) merges neighbours ``Y = X W + B`` with constant W and B:
``Y2 = (X W1 + B1) W2 + B2 = X (W1 W2) + (B1 W2 + B2)``. Here W is one operation (a convolution, a
dense layer) and B is another, the affine operation behind it. So each rule looks at two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tvm_neocpu.relay_passes.ir.constants import Array
from tvm_neocpu.relay_passes.linear.ops import Affine, Conv, Dense, LinearOp, spread

Fused = tuple[LinearOp, ...] | None


def simplify(ops: tuple[LinearOp, ...]) -> tuple[LinearOp, ...]:
    """The same function in fewer operations; an operation that takes nothing in stays itself.

    The rules are ordered from cheap to dear: factors are multiplied with each other first, so that
    a weight is multiplied once.
    """
    ops = tuple(op for op in ops if not _is_identity(op))
    for rule in RULES:
        for index, (first, second) in enumerate(pairwise(ops)):
            fused = rule(first, second)
            if fused is not None:
                return simplify(ops[:index] + fused + ops[index + 2 :])
    return _with_bias_vectors(ops)


def compose_affines(first: LinearOp, second: LinearOp) -> Fused:
    """``(x s1 + t1) s2 + t2 = x (s1 s2) + (t1 s2 + t2)``."""
    if not isinstance(first, Affine) or not isinstance(second, Affine):
        return None
    if first.axis is not None and second.axis not in (None, first.axis):
        return None
    axis = second.axis if first.axis is None else first.axis
    scale, shift = first.scale * second.scale, first.shift * second.scale + second.shift
    return (Affine(scale, shift, axis),)


def fold_scale_after(first: LinearOp, second: LinearOp) -> Fused:
    """``(x W) s + t = x (W s) + t``."""
    if isinstance(first, Affine) or not isinstance(second, Affine):
        return None
    if not second.scales or second.axis not in (None, first.axis):
        return None
    scale = spread(second.scale, first.out_channels)
    shift = replace(second, scale=np.ones(()))
    return (first.scale_outputs(scale), shift)


def fold_affine_before(first: LinearOp, second: LinearOp) -> Fused:
    """``(x s + t) W = x (s W) + t W``; declined if ``t W`` differs from pixel to pixel."""
    if not isinstance(first, Affine) or isinstance(second, Affine):
        return None
    if first.axis not in (None, second.axis):
        return None
    response = second.respond(first.shift) if first.shifts else np.zeros(())
    if response is None:
        return None
    linear = second.scale_inputs(first.scale) if first.scales else second
    return (linear, Affine(np.ones(()), response, second.axis if response.ndim else None))


def merge_dense(first: LinearOp, second: LinearOp) -> Fused:
    """``(x W1) W2 = x (W1 W2)`` if the product has no more weights than W1 and W2 together."""
    if not isinstance(first, Dense) or not isinstance(second, Dense):
        return None
    if first.weight.shape[0] * second.out_channels > first.weight.size + second.weight.size:
        return None
    return (replace(first, weight=_double(first.weight) @ _double(second.weight)),)


def merge_convs(first: LinearOp, second: LinearOp) -> Fused:
    """Two convolutions, one of them 1x1, as one, if that is no more work than both."""
    if not isinstance(first, Conv) or not isinstance(second, Conv):
        return None
    if first.groups != second.groups:
        return None
    if second.is_pointwise:
        stride = (first.stride[0] * second.stride[0], first.stride[1] * second.stride[1])
        window = replace(first, stride=stride, pixels=second.pixels)
    elif first.is_pointwise and first.stride == (1, 1):
        window = second
    else:
        return None
    shape = (second.out_channels, first.weight.shape[1], *window.weight.shape[2:])
    if not _is_no_larger(math.prod(shape), window.pixels, first, second):
        return None
    return (replace(window, weight=_product_by_group(first, second).reshape(shape)),)


def _is_no_larger(weights: int, pixels: int | None, first: Conv, second: Conv) -> bool:
    """Whether the result has neither more weights nor more multiply-adds than both together."""
    if pixels is None or first.pixels is None or second.pixels is None:
        return False
    work = first.weight.size * first.pixels + second.weight.size * second.pixels
    return weights <= first.weight.size + second.weight.size and weights * pixels <= work


def _product_by_group(first: Conv, second: Conv) -> Array:
    """The weights' product, (group, output, input, tap), summed over the channels in between.

    One of the two kernels has one tap, so that the product has the taps of the other.
    """
    outer, inner = _double(second.by_group), _double(first.by_group)
    groups, outputs, middle, outer_taps = outer.shape
    inputs, inner_taps = inner.shape[2:]
    left = outer.swapaxes(2, 3).reshape(groups, outputs * outer_taps, middle)
    product: Array = left @ inner.reshape(groups, middle, inputs * inner_taps)
    product = product.reshape(groups, outputs, outer_taps, inputs, inner_taps).swapaxes(2, 3)
    return product.reshape(groups, outputs, inputs, outer_taps * inner_taps)


def _with_bias_vectors(ops: tuple[LinearOp, ...]) -> tuple[LinearOp, ...]:
    """Scalars behind a weighted operation become vectors: a bias has one entry per channel."""
    result = list(ops)
    for index, (first, second) in enumerate(pairwise(ops)):
        if not isinstance(first, Affine) and isinstance(second, Affine) and second.axis is None:
            scale, shift = (spread(v, first.out_channels) for v in (second.scale, second.shift))
            result[index + 1] = Affine(scale, shift, first.axis)
    return tuple(result)


def _is_identity(op: LinearOp) -> bool:
    return isinstance(op, Affine) and not op.scales and not op.shifts


def _double(array: Array) -> npt.NDArray[np.float64]:
    return array.astype("float64", copy=False)


RULES: tuple[Callable[[LinearOp, LinearOp], Fused], ...] = (
    compose_affines,
    fold_scale_after,
    fold_affine_before,
    merge_dense,
    merge_convs,
)

__all__ = ["RULES", "simplify"]
