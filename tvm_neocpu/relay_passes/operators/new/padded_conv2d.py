"""conv2d of integers, with what Relax's call cannot say of it: a call of our own, and its form.

Relax pads convolutions by zeros only; quantised data are padded by their zero point. Nor does it
know how small the weights are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, topi
from tvm.ir import GenericConst

from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import Types
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import (
    CallForm,
    convolution_multiply_adds,
    noted_layouts,
)
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

OP = "relax.neocpu.padded_conv2d"


def padded_conv2d(
    data: relax.Expr,
    weight: relax.Expr,
    conv: ConvWorkload,
    before: Layout = NCHW,
    after: Layout = NCHW,
) -> relax.Call:
    """A call that computes the workload; the weight is OIHW."""
    return _NEW_OP(
        data,
        weight,
        strides=list(conv.stride),
        padding=list(conv.padding),
        dilation=list(conv.dilation),
        groups=conv.groups,
        pad_value=conv.pad_value,
        weight_bits=conv.weight_bits,
        out_dtype=conv.types.output,
        data_layout=str(before),
        out_layout=str(after),
    )


def padded_workload(call: relax.Expr) -> ConvWorkload | None:
    """The workload of such a call with a constant weight; its data may be in any layout."""
    if op_name(call) != OP or not isinstance(call.args[1], GenericConst):
        return None
    return _workload(call)


def _workload(call: relax.Call) -> ConvWorkload:
    """Raises ValueError for tensors of unknown shape."""
    data, weight = (static_shape(arg) for arg in call.args)
    if data is None or weight is None:
        raise ValueError("all its shapes must be known")
    attrs, (before, _) = call.attrs, noted_layouts(call)
    output = str(attrs["out_dtype"])
    return ConvWorkload(
        *before.logical_shape(data),
        weight[0],
        (weight[2], weight[3]),
        *(ints(attrs[name]) for name in ("strides", "padding", "dilation")),
        int(attrs["groups"]),
        Types(dtype_of(call.args[0]), dtype_of(call.args[1]), output, output),
        int(attrs["pad_value"]),
        int(attrs["weight_bits"]),
    )


def _alter(
    call: relax.Call, tensors: Sequence[relax.Expr], before: Layout, after: Layout
) -> relax.Expr:
    """The weight stays OIHW until a template packs it."""
    return padded_conv2d(*tensors, _workload(call), before, after)


def _infer(call: relax.Call) -> relax.Type:
    conv = _workload(call)
    return relax.TensorType(noted_layouts(call)[1].shape_of(conv.out_shape), conv.types.output)


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Padding and convolution as TVM computes them, of plain NCHW."""
    conv = _workload(call)
    top, left, bottom, right = conv.padding

    def compute(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        padded = topi.nn.pad(data, [0, 0, top, left], [0, 0, bottom, right], conv.pad_value)
        window = conv.stride, 0, conv.dilation
        if conv.groups == 1:
            return topi.nn.conv2d_nchw(padded, weight, *window, conv.types.output)
        return topi.nn.group_conv2d_nchw(padded, weight, *window, conv.groups, conv.types.output)

    return builder.call_te(compute, *call.args, primfunc_name_hint="padded_conv2d")


_NEW_OP = NewOp(OP, infer=_infer, legalize=_legalize)

PADDED_CONV2D_FORM = CallForm(
    operator="conv2d",
    op=OP,
    read=padded_workload,
    multiply_adds=convolution_multiply_adds,
    layouts=noted_layouts,
    alter=_alter,
)
