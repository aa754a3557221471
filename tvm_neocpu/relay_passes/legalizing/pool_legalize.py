"""Pools of images as two passes over rows and columns; TVM legalises the others.

In a blocked layout a small window is one loop over its elements, each a vector of channels: TVM's
way. There two passes pay from 4 x 4 on, of codes from the smallest on: they are widened once a pass
where one loop widens each for every window.
"""

from __future__ import annotations

from math import prod

import numpy as np
from tvm import relax
from tvm.ir import GlobalVar

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.legalizing.tvms_own import Legalization, as_tvm_does
from tvm_neocpu.relay_passes.legalizing.vector_legalize import legalize_cast
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE
from tvm_neocpu.topi.image import pools
from tvm_neocpu.topi.image.pools import MAX_CODES, MAX_TAPS, Windows

# Elements of a window from which on two passes over blocked channels pay.
MIN_BLOCKED_WINDOW = 16
# What the shares of an average are exact enough for.
FLOATS = ("float32", "float64")
# What a pool between a DequantizeLinear and a QuantizeLinear reads and computes.
CODES, MEANS = "uint8", "float32"


def legalize_max_pool(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.nn.max_pool2d``."""
    windows = _windows(call)
    if windows is None:
        return as_tvm_does(builder, call)
    rows, columns = windows
    return builder.call_te(
        lambda x: pools.max_pool(x, rows, columns), call.args[0], **_named("max_pool2d")
    )


class AveragePools:
    """Legalisations of ``relax.nn.avg_pool2d``, and of the casts that some of them read.

    A pool of codes adds them in 16 bits, in place of floats that a cast would store.
    """

    def __init__(self) -> None:
        self._widening: set[GlobalVar] = set()

    def cast(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        """A legalisation of ``relax.astype``: that of all casts."""
        lowered = legalize_cast(builder, call)
        types = dtype_of(call.args[0]), dtype_of(call)
        if types == (CODES, MEANS) and op_name(lowered) == CALL_TIR:
            self._widening.add(lowered.args[0])
        return lowered

    def average(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        """A legalisation of ``relax.nn.avg_pool2d``."""
        codes = self._codes(builder, call.args[0])
        if codes is None:
            return _average_of_floats(builder, call)
        windows = _windows(call, min_blocked=1)
        if windows is None or prod(axis.taps for axis in windows) > MAX_CODES:
            return _average_of_floats(builder, call)
        rows, columns = windows
        counts = (axis.counts(bool(call.attrs.count_include_pad)) for axis in windows)
        share = (1.0 / np.multiply.outer(*counts)).astype(MEANS)
        return builder.call_te(
            lambda x, table: pools.average_pool_of_codes(x, table, rows, columns),
            codes,
            relax.const(share),
            **_named("avg_pool2d"),
        )

    def _codes(self, builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr | None:
        """The codes that a tensor was cast from; ``None`` for any other tensor."""
        value = builder.lookup_binding(data) if isinstance(data, relax.Var) else None
        if op_name(value) != CALL_TIR or value.args[0] not in self._widening:
            return None
        return value.args[1].fields[0]


def _average_of_floats(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    windows, dtype = _windows(call), dtype_of(call)
    if windows is None or dtype not in FLOATS:
        return as_tvm_does(builder, call)
    rows, columns = windows
    include = bool(call.attrs.count_include_pad)
    shares = [relax.const(axis.shares(include, dtype)) for axis in windows]
    return builder.call_te(
        lambda x, *tables: pools.average_pool(x, *tables, rows, columns),
        call.args[0],
        *shares,
        **_named("avg_pool2d"),
    )


def _named(hint: str) -> dict[str, object]:
    # A producer fused into it would be computed for every window.
    return {"primfunc_name_hint": hint, "primfunc_attrs": {"op_pattern": OUT_ELEMWISE_FUSABLE}}


def _windows(
    call: relax.Call, min_blocked: int = MIN_BLOCKED_WINDOW
) -> tuple[Windows, Windows] | None:
    """Rows and columns; ``None`` where two passes do not pay or the shapes are not known."""
    attrs, shape = call.attrs, static_shape(call.args[0])
    layout = _layout(str(attrs.layout))
    if shape is None or layout is None or str(attrs.out_layout) != str(attrs.layout):
        return None
    if bool(attrs.ceil_mode):
        return None
    pads = [int(width) for width in attrs.padding]
    rows, columns = (
        Windows(
            shape[2 + axis],
            int(attrs.pool_size[axis]),
            int(attrs.strides[axis]),
            pads[axis],
            pads[axis + 2],
            int(attrs.dilation[axis]),
        )
        for axis in (0, 1)
    )
    if max(rows.taps, columns.taps) > MAX_TAPS or min(pads) < 0:
        return None
    if layout.is_blocked and rows.taps * columns.taps < min_blocked:
        return None
    return rows, columns


def _layout(text: str) -> Layout | None:
    try:
        return Layout.parse(text)
    except ValueError:
        return None


def pool_legalization() -> dict[str, Legalization]:
    """By Relax's name; for one module."""
    averages = AveragePools()
    return {
        "relax.astype": averages.cast,
        "relax.nn.avg_pool2d": averages.average,
        "relax.nn.max_pool2d": legalize_max_pool,
    }
