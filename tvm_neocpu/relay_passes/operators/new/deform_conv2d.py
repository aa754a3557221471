"""deform_conv2d: a call that Relax lacks, its type, its lowering without a template, its form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import (
    OPAQUE,
    CallForm,
    convolution_multiply_adds,
    noted_layouts,
)
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.deform_conv2d import definition
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

OP = "relax.neocpu.deform_conv2d"


def deform_conv2d(
    tensors: Sequence[relax.Expr],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    offset_groups: int,
    data_layout: Layout = NCHW,
    out_layout: Layout = NCHW,
) -> relax.Call:
    """A call over data, OIHW weight, offset and perhaps a mask; the last two are plain NCHW.

    ``padding`` is (top, left, bottom, right).
    """
    return _NEW_OP(
        *tensors,
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=groups,
        offset_groups=offset_groups,
        data_layout=str(data_layout),
        out_layout=str(out_layout),
    )


def deform_workload(call: relax.Expr) -> DeformConvWorkload | None:
    """The workload of a call with a constant weight and one type; ``None`` for anything else.

    Its data may be in any layout NCHW[x]c.
    """
    return _workload(call) if op_name(call) == OP and _refusal(call) is None else None


def _refusal(call: relax.Call) -> str | None:
    if not isinstance(call.args[1], GenericConst):
        return "its weight is not constant"
    types = sorted({dtype_of(argument) for argument in call.args})
    return None if len(types) == 1 else f"its types are {' and '.join(types)}"


def _workload(call: relax.Call) -> DeformConvWorkload:
    """The same for any weight. Raises ValueError for arguments that do not fit each other."""
    shapes = [static_shape(arg) for arg in call.args]
    data, weight, *moves = (shape for shape in shapes if shape is not None)
    if len(moves) != len(call.args) - 2:
        raise ValueError("all its shapes must be known")
    attrs, (before, _) = call.attrs, noted_layouts(call)
    if len(data) != 4 + before.is_blocked or len(weight) != 4:
        raise ValueError("its data and weight must have two spatial axes")
    deform = DeformConvWorkload(
        *before.logical_shape(data),
        weight[0],
        (weight[2], weight[3]),
        ints(attrs["strides"]),
        ints(attrs["padding"]),
        ints(attrs["dilation"]),
        int(attrs["groups"]),
        int(attrs["offset_groups"]),
        len(moves) == 2,
        uniform(dtype_of(call.args[0])),
    )
    if deform.misfit is not None:
        raise ValueError(deform.misfit)
    given = (before.logical_shape(data), weight, *moves)
    for operand, shape in zip(deform.operands, given, strict=True):
        if operand.shape != shape:
            raise ValueError(f"its {operand.name} is {list(shape)}, not {list(operand.shape)}")
    return deform


def _alter(
    call: relax.Call, tensors: Sequence[relax.Expr], before: Layout, after: Layout
) -> relax.Expr:
    """The weight stays OIHW until the template packs it."""
    attrs = call.attrs
    window = (ints(attrs[name]) for name in ("strides", "padding", "dilation"))
    groups = (int(attrs[name]) for name in ("groups", "offset_groups"))
    return deform_conv2d(tensors, *window, *groups, before, after)


def _infer(call: relax.Call) -> relax.Type:
    deform = _workload(call)
    return relax.TensorType(noted_layouts(call)[1].shape_of(deform.out_shape), deform.types.output)


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Sampling and product as two functions: in one, sampling is repeated for every filter."""
    deform = _workload(call)
    data, weight, *moves = call.args
    columns = builder.emit_te(
        partial(definition.sampled, deform=deform),
        data,
        *moves,
        primfunc_name_hint="deform_sampled",
        primfunc_attrs={"op_pattern": OPAQUE},
    )
    product = partial(definition.multiplied, deform=deform)
    return builder.call_te(product, columns, weight, primfunc_name_hint="deform_multiplied")


_NEW_OP = NewOp(OP, infer=_infer, legalize=_legalize)

DEFORM_CONV2D_FORM = CallForm(
    operator="deform_conv2d",
    op=OP,
    read=deform_workload,
    refusal=_refusal,
    # The interpolation before the products is small beside many filters.
    multiply_adds=convolution_multiply_adds,
    layouts=noted_layouts,
    alter=_alter,
)
