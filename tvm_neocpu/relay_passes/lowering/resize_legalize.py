"""Bilinear resize2d by tables; TVM legalises the other methods and coordinate modes."""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_neocpu.core.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE
from tvm_neocpu.topi.image import resize_linear

RESIZE = "relax.image.resize2d"


def legalize_resize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """The legalisation of ``relax.image.resize2d``, for the table of ``LegalizeOps``."""
    tables = _tables(call)
    if tables is None:
        return tvm.ir.Op.get(op_name(call)).get_attr("FLegalize")(builder, call)
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


def _is_ours(layout: str) -> bool:
    try:
        Layout.parse(layout)
    except ValueError:
        return False
    return True
