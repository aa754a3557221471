"""conv2d calls: read, given other layouts, lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.constants import Array, constant_of
from tvm_neocpu.relay_passes.ir.exprs import ints, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import CallForm, Layouts
from tvm_neocpu.relay_passes.operators.refusals import refused_operands, types_of
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

OP = "relax.nn.conv2d"


def conv_workload(call: relax.Expr) -> ConvWorkload | None:
    """The workload of a conv2d call with a constant OIHW weight of its data's type, else ``None``.

    Its data may be in any layout NCHW[x]c.
    """
    if op_name(call) != OP or _refusal(call) is not None:
        return None
    data, weight = call.args[:]
    shape, layouts, types = static_shape(data), _known_layouts(call), types_of(call)
    known = shape is not None and layouts is not None and types is not None
    assert known, "a call without them is refused"
    out_channels, _, *kernel = (int(extent) for extent in weight.value.shape)
    attrs = call.attrs
    return ConvWorkload(
        *layouts[0].logical_shape(shape),
        out_channels,
        tuple(kernel),
        ints(attrs.strides),
        ints(attrs.padding),
        ints(attrs.dilation),
        int(attrs.groups),
        types,
    )


def convolution(data: relax.Expr, weight: Array, conv: ConvWorkload, groups: int) -> relax.Expr:
    """A call over NCHW with another weight and number of groups than the workload's; not emitted.

    What it sums integers in is said; floats are their own type.
    """
    return relax.op.nn.conv2d(
        data,
        constant_of(weight),
        strides=list(conv.stride),
        padding=list(conv.padding),
        dilation=list(conv.dilation),
        groups=groups,
        out_dtype=None if conv.types.is_uniform else conv.types.output,
    )


def same_convolution(
    call: relax.Call, data: relax.Expr, weight: relax.Expr, **changed: Any
) -> relax.Expr:
    """The same convolution of other operands, but for the attributes given; not emitted."""
    attrs = call.attrs
    own = {
        "strides": list(attrs.strides),
        "padding": list(attrs.padding),
        "dilation": list(attrs.dilation),
        "groups": attrs.groups,
        "data_layout": str(attrs.data_layout),
        "kernel_layout": str(attrs.kernel_layout),
        "out_layout": str(attrs.out_layout),
        "out_dtype": attrs.out_dtype or None,
    }
    return relax.op.nn.conv2d(data, weight, **{**own, **changed})


def _refusal(call: relax.Call) -> str | None:
    attrs = call.attrs
    if str(attrs.kernel_layout) != "OIHW" or _known_layouts(call) is None:
        return f"its layouts are {attrs.data_layout} and {attrs.kernel_layout}"
    return refused_operands(call)


def _known_layouts(call: relax.Call) -> Layouts | None:
    """Data and output layout; ``None`` for layouts that are not ours (NHWC)."""
    try:
        return Layout.parse(str(call.attrs.data_layout)), Layout.parse(str(call.attrs.out_layout))
    except ValueError:
        return None


def _layouts(call: relax.Call) -> Layouts:
    layouts = _known_layouts(call)
    assert layouts is not None, "only calls with a workload are asked"
    return layouts


def _alter(
    call: relax.Call, tensors: Sequence[relax.Expr], before: Layout, after: Layout
) -> relax.Expr:
    """The weight stays OIHW until a template packs it."""
    return same_convolution(call, *tensors, data_layout=str(before), out_layout=str(after))


CONV2D_FORM = CallForm(
    operator="conv2d",
    op=OP,
    read=conv_workload,
    refusal=_refusal,
    layouts=_layouts,
    alter=_alter,
)
