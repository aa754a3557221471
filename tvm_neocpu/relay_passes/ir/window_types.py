"""Types of convolutions and pools over NCHW[x]c.

TVM finds a layout's axes symbolically: 1.2 ms for a convolution over NCHW, 1.9 for one over
NCHW16c, 1.0 for a pool (Ice Lake). Passes write each of them several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax
from tvm.ir import Call
from tvm.relax.expr import _update_type

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, op_name, static_shape


def with_window_type(value: relax.Expr) -> relax.Expr:
    """The same expression, with its type if it is a convolution or pool of known shapes.

    Where the operands do not fit, TVM's message says so.
    """
    rule = _RULES.get(op_name(value))
    if rule is not None and value.ty.is_missing():
        found = rule(value)
        if found is not None:
            _update_type(value, found)
    return value


def _conv2d(call: Call) -> relax.TensorType | None:
    attrs = call.attrs
    data = _logical_shape(call.args[0], str(attrs.data_layout))
    weight = static_shape(call.args[1])
    if data is None or weight is None or str(attrs.kernel_layout) != "OIHW" or len(weight) != 4:
        return None
    batch, channels, *image = data
    out_channels, in_channels, *kernel = weight
    groups, after = int(attrs.groups), _layout(str(attrs.out_layout))
    if channels != in_channels * groups or out_channels % groups:
        return None
    if after is None or not after.fits(out_channels):
        return None
    rows, columns = _windows(image, kernel, attrs)
    dtype = str(attrs.out_dtype or "")
    if not dtype and dtype_of(call.args[0]) != dtype_of(call.args[1]):
        return None
    shape = after.shape_of((batch, out_channels, rows, columns))
    return relax.TensorType(shape, dtype or dtype_of(call.args[0]))


def _pool2d(call: Call) -> relax.TensorType | None:
    attrs = call.attrs
    data = _logical_shape(call.args[0], str(attrs.layout))
    after = _layout(str(attrs.out_layout))
    if data is None or after is None or not after.fits(data[1]):
        return None
    batch, channels, *image = data
    rows, columns = _windows(image, ints(attrs.pool_size), attrs, bool(attrs.ceil_mode))
    shape = after.shape_of((batch, channels, rows, columns))
    return relax.TensorType(shape, dtype_of(call.args[0]))


def _windows(
    image: Sequence[int], kernel: Sequence[int], attrs: Any, ceil: bool = False
) -> list[int]:
    """How many windows there are, down and across.

    With ``ceil`` the last one may end behind the padding, if it begins before the padding does.
    """
    strides, dilation = ints(attrs.strides), ints(attrs.dilation)
    *before, bottom, right = ints(attrs.padding)
    found = []
    for axis, behind in enumerate((bottom, right)):
        stride, begin = strides[axis], image[axis] + before[axis]
        room = begin + behind - (kernel[axis] - 1) * dilation[axis] - 1
        count = (room + (stride - 1 if ceil else 0)) // stride + 1
        found.append(count - (ceil and (count - 1) * stride >= begin))
    return found


def _logical_shape(data: relax.Expr, text: str) -> tuple[int, int, int, int] | None:
    """N, C, H, W of a tensor in a layout; ``None`` if one of them is not known."""
    layout, shape = _layout(text), static_shape(data)
    if layout is None or shape is None or len(shape) != (5 if layout.is_blocked else 4):
        return None
    return layout.logical_shape(shape)


def _layout(text: str) -> Layout | None:
    """``None`` for layouts that are not ours (NHWC)."""
    try:
        return Layout.parse(text)
    except ValueError:
        return None


_RULES: dict[str, Callable[[Call], relax.TensorType | None]] = {
    "relax.nn.avg_pool2d": _pool2d,
    "relax.nn.conv2d": _conv2d,
    "relax.nn.max_pool2d": _pool2d,
}
