"""Linear Resize of uint8, int8 and int32, bit for bit as ONNX Runtime computes it on x86.

ONNX does not say how integers are rounded; its reference rounds them otherwise. ONNX Runtime's
quantiser leaves Resize between integers in its QOperator format. All axes are blended at once and
the fraction is cut off once, so that the last bit of a sum decides:

    H, W (and D), or any axes  float32, each product and each sum rounded by itself
    H, W of N x H x W x C      of bytes: int32, weights in units of 2 ** -10
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.frontend.converters.geometry.interpolation import Method, ResizedAxis, Taps
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE

_BYTES = ("int8", "uint8")
_INTEGERS = (*_BYTES, "int32")
# The axes that ONNX Runtime blends together, though some of them may stay as they are.
_BLENDED: Mapping[int, tuple[int, ...]] = {2: (0, 1), 3: (0, 1, 2), 4: (2, 3), 5: (2, 3, 4)}
# H and W of images whose channels come last.
_CHANNELS_LAST = (1, 2)
_UNITS = 2**10


def is_linear_of_integers(node: Node, method: Method) -> bool:
    return node.dtype in _INTEGERS and method.mode == "linear" and not method.antialias


def linear_of_integers(node: Node, method: Method, axes: Mapping[int, ResizedAxis]) -> relax.Var:
    """The first input with ``axes`` resized; the caller replaces what a crop has from outside."""
    numbers = _blended(node.rank, axes)
    taps = [method.integer_taps(axes.get(number) or _kept(node, number)) for number in numbers]
    in_units = numbers == _CHANNELS_LAST and node.dtype in _BYTES
    tables = [table for each in taps for table in _tables(each, in_units)]

    def compute(data: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        return _blend(data, numbers, tables[::2], tables[1::2], in_units)

    return node.builder.emit_te(
        compute,
        node.data,
        *tables,
        primfunc_name_hint="linear_of_integers",
        # A fused producer would be computed once for each tap.
        primfunc_attrs={"op_pattern": OUT_ELEMWISE_FUSABLE},
    )


def _blended(rank: int, axes: Mapping[int, ResizedAxis]) -> tuple[int, ...]:
    if rank == 4 and 1 in axes and set(axes) <= set(_CHANNELS_LAST):
        return _CHANNELS_LAST
    together = _BLENDED.get(rank, ())
    return together if set(axes) <= set(together) else tuple(sorted(axes))


def _kept(node: Node, number: int) -> ResizedAxis:
    return ResizedAxis(node.extent(number), node.extent(number), 1.0)


def _tables(taps: Taps, in_units: bool) -> tuple[relax.Expr, relax.Expr]:
    """``(resized, 2)`` each: the elements of an axis, and how much of them."""
    weight = np.float32(taps.weight)
    if in_units:
        # The second weight is cut off; a whole unit remains for both. The halves are exact.
        share = (weight[:, 1] * np.float32(_UNITS)).astype("int32")
        return _const(taps.index), _const(np.stack([_UNITS - share, share], axis=1))
    return _const(taps.index), relax.const(weight)


def _const(values: np.ndarray) -> relax.Expr:
    return relax.const(values.astype("int32"))


def _blend(
    data: te.Tensor,
    numbers: Sequence[int],
    indices: Sequence[te.Tensor],
    weights: Sequence[te.Tensor],
    in_units: bool,
) -> te.Tensor:
    shape = list(data.shape)
    for number, index in zip(numbers, indices, strict=True):
        shape[number] = index.shape[0]

    def term(at: tuple[tirx.Var, ...], taps: Sequence[int]) -> tirx.Expr:
        place = list(at)
        for number, index, tap in zip(numbers, indices, taps, strict=True):
            place[number] = index[at[number], tap]
        rows = zip(numbers, weights, taps, strict=True)
        shares = [weight[at[number], tap] for number, weight, tap in rows]
        # The last axis' share comes first.
        share = reduce(operator.mul, reversed(shares))
        value = data(*place).astype(weights[0].dtype) * share
        # LLVM would fuse the product with the sum, and round once; a max keeps them apart.
        return value if in_units else tirx.max(value, tirx.min_value("float32"))

    def element(*at: tirx.Var) -> tirx.Expr:
        # The last axis' tap changes first.
        total = reduce(
            operator.add, (term(at, taps) for taps in product((0, 1), repeat=len(numbers)))
        )
        whole = tirx.truncdiv(total, tirx.const(_UNITS**2, "int32")) if in_units else total
        return whole.astype(data.dtype)

    return te.compute(tuple(shape), element, name="linear_of_integers")
