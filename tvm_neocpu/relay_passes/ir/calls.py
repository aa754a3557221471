"""Conv2d and matmul calls of Relax read as workloads."""

from __future__ import annotations

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.layout import NCHW, Layout
from tvm_neocpu.core.workload import ConvWorkload, DenseWorkload, Workload
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape


def conv_layouts(call: relax.Call) -> tuple[Layout, Layout] | None:
    """(data layout, output layout) of a conv2d call; ``None`` for a layout such as NHWC."""
    try:
        return Layout.parse(str(call.attrs.data_layout)), Layout.parse(str(call.attrs.out_layout))
    except ValueError:
        return None


def conv_workload(call: relax.Expr) -> ConvWorkload | None:
    """The workload of a float32 conv2d call with a constant OIHW weight, else ``None``."""
    if op_name(call) != "relax.nn.conv2d" or str(call.attrs.kernel_layout) != "OIHW":
        return None
    data, weight = call.args
    shape, layouts = static_shape(data), conv_layouts(call)
    if layouts is None or shape is None or not isinstance(weight, GenericConst):
        return None
    if dtype_of(data) != "float32" or dtype_of(weight) != "float32":
        return None
    batch, channels, height, width = layouts[0].logical_shape(shape)
    out_channels, _, kernel_h, kernel_w = (int(extent) for extent in weight.value.shape)
    attrs = call.attrs
    return ConvWorkload(
        batch,
        channels,
        height,
        width,
        out_channels,
        (kernel_h, kernel_w),
        _ints(attrs.strides),
        _ints(attrs.padding),
        _ints(attrs.dilation),
        int(attrs.groups),
    )


def dense_workload(call: relax.Expr) -> DenseWorkload | None:
    """The workload of a float32 matmul of a matrix with a constant matrix, else ``None``."""
    if op_name(call) != "relax.matmul":
        return None
    data, weight = call.args
    shape = static_shape(data)
    if shape is None or len(shape) != 2 or not isinstance(weight, GenericConst):
        return None
    if len(weight.value.shape) != 2 or {dtype_of(data), dtype_of(weight)} != {"float32"}:
        return None
    return DenseWorkload(shape[0], shape[1], int(weight.value.shape[1]))


def call_workload(call: relax.Expr) -> Workload | None:
    """The workload of a call that a template may compute, else ``None``."""
    return conv_workload(call) or dense_workload(call)


def has_plain_layout(call: relax.Call) -> bool:
    """Whether a conv2d call reads and writes plain NCHW, as imported."""
    return conv_layouts(call) == (NCHW, NCHW)


def _ints(values: object) -> tuple[int, ...]:
    return tuple(int(value) for value in values)  # type: ignore[attr-defined]
