"""Bilinear resize2d by tables, repeated pixels as such; TVM legalises what is neither."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape
from tvm_neocpu.relay_passes.legalizing.tvms_own import as_tvm_does
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE
from tvm_neocpu.topi.image import resize_linear, resize_nearest

RESIZE = "relax.image.resize2d"
# Coordinate modes and roundings by which a whole factor repeats every pixel as often.
REPEATING = (
    ("asymmetric", "floor"),
    ("half_pixel", "round"),
    ("half_pixel", "round_prefer_ceil"),
    ("half_pixel", "round_prefer_floor"),
)


def legalize_resize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """The legalisation of ``relax.image.resize2d``, for the table of ``LegalizeOps``."""
    factors = _factors(call)
    if factors is not None:
        return builder.call_te(
            lambda x: resize_nearest.compute(x, *factors),
            call.args[0],
            primfunc_name_hint="resize_nearest",
        )
    tables = _tables(call)
    if tables is None:
        return as_tvm_does(builder, call)
    rows, cols = tables
    constants = [relax.const(table) for table in (rows.index, rows.share, cols.index, cols.share)]
    return builder.call_te(
        resize_linear.compute,
        call.args[0],
        *constants,
        primfunc_name_hint="resize_linear",
        # A producer fused into it would be computed four times.
        primfunc_attrs={"op_pattern": OUT_ELEMWISE_FUSABLE},
    )


def _tables(call: relax.Call) -> tuple[resize_linear.Taps, resize_linear.Taps] | None:
    shape, resized = static_shape(call.args[0]), static_shape(call)
    if shape is None or resized is None or dtype_of(call) != resize_linear.DTYPE:
        return None
    if str(call.attrs.method) != "linear" or not _is_ours(str(call.attrs.layout)):
        return None
    mode = str(call.attrs.coordinate_transformation_mode)
    rows, cols = (resize_linear.taps(shape[axis], resized[axis], mode) for axis in (2, 3))
    return None if rows is None or cols is None else (rows, cols)


def _factors(call: relax.Call) -> tuple[int, int] | None:
    """How often rows and columns are repeated, if that is all that a plain resize does."""
    shape, resized = static_shape(call.args[0]), static_shape(call)
    attrs = call.attrs
    how = (str(attrs.coordinate_transformation_mode), str(attrs.rounding_method))
    if str(attrs.method) != "nearest_neighbor" or how not in REPEATING:
        return None
    if str(attrs.layout) != "NCHW" or shape is None or resized is None:
        return None
    if resized[2] % shape[2] or resized[3] % shape[3]:
        return None
    return resized[2] // shape[2], resized[3] // shape[3]


def _is_ours(layout: str) -> bool:
    try:
        Layout.parse(layout)
    except ValueError:
        return False
    return True
