"""Pools of images as two passes over rows and columns; TVM legalises the others.

In a blocked layout a small window is one loop over its elements, each a vector of channels: TVM's
way. There two passes pay from 4 x 4 on.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_neocpu.core.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE
from tvm_neocpu.topi.image import pools
from tvm_neocpu.topi.image.pools import MAX_TAPS, Windows

# Elements of a window from which on two passes over blocked channels pay.
MIN_BLOCKED_WINDOW = 16
# What the shares of an average are exact enough for.
FLOATS = ("float32", "float64")


def legalize_max_pool(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.nn.max_pool2d``."""
    windows = _windows(call)
    if windows is None:
        return _as_tvm_does(builder, call)
    rows, columns = windows
    return builder.call_te(
        lambda x: pools.max_pool(x, rows, columns), call.args[0], **_named("max_pool2d")
    )


def legalize_average_pool(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.nn.avg_pool2d``."""
    windows, dtype = _windows(call), dtype_of(call)
    if windows is None or dtype not in FLOATS:
        return _as_tvm_does(builder, call)
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


def _windows(call: relax.Call) -> tuple[Windows, Windows] | None:
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
    if layout.is_blocked and rows.taps * columns.taps < MIN_BLOCKED_WINDOW:
        return None
    return rows, columns


def _layout(text: str) -> Layout | None:
    try:
        return Layout.parse(text)
    except ValueError:
        return None


def _as_tvm_does(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return tvm.ir.Op.get(op_name(call)).get_attr("FLegalize")(builder, call)


# By Relax's name.
POOLS = {
    "relax.nn.max_pool2d": legalize_max_pool,
    "relax.nn.avg_pool2d": legalize_average_pool,
}
