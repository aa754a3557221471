"""How layouts flow through each Relax operator: NeoCPU's three classes (section 3.2).

Layout-oblivious and layout-tolerant operations keep the layout of their input. A join forces its
inputs into one layout. A convolution chooses its layouts. Every other operation depends on plain
NCHW.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.calls import call_workload
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.layouts.channel_moves import read_channel_move
from tvm_neocpu.relay_passes.layouts.slices import channel_range, read_slice

# fmt: off
UNARY = frozenset(f"relax.{name}" for name in (
    "abs", "ceil", "clip", "cos", "erf", "exp", "floor", "log", "negative", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sqrt", "square", "tanh", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu",
    "nn.relu", "nn.relu6", "nn.selu", "nn.silu", "nn.softplus",
))
BINARY = frozenset(f"relax.{name}" for name in (
    "add", "divide", "maximum", "minimum", "multiply", "power", "subtract",
))
POOLS = frozenset(f"relax.nn.{name}" for name in (
    "avg_pool2d", "max_pool2d", "adaptive_avg_pool2d",
))
# fmt: on
REDUCTIONS = frozenset(f"relax.{name}" for name in ("mean", "max", "min", "sum"))
SPATIAL_AXES = (2, 3)


class FlowKind(Enum):
    """The effect of an operator on layouts: it chooses, keeps, unites, or wants plain NCHW."""

    WORKLOAD = "workload"
    FOLLOW = "follow"
    JOIN = "join"
    BOUNDARY = "boundary"


@dataclass(frozen=True)
class Flow:
    """The kind, and the operands whose layouts count: variables that hold (N, C, H, W) tensors.

    ``join_channels``: the channel counts that a join's block must divide.
    """

    kind: FlowKind
    operands: tuple[relax.Expr, ...] = ()
    join_channels: tuple[int, ...] = ()


_BOUNDARY = Flow(FlowKind.BOUNDARY)


def flow_of(call: relax.Expr) -> Flow:
    """The flow of one bound expression; the module's feature maps are plain NCHW."""
    flow = _flow_by_operator(call)
    # A constant is stored as it was imported, in plain NCHW.
    of_variables = all(isinstance(operand, relax.Var) for operand in flow.operands)
    return flow if of_variables else _BOUNDARY


def _flow_by_operator(call: relax.Expr) -> Flow:
    if call_workload(call) is not None:
        return Flow(FlowKind.WORKLOAD, (call.args[0],))
    name = op_name(call)
    if name == "relax.concat":
        return _concat_flow(call)
    if name in BINARY:
        return _binary_flow(call)
    if name in UNARY | POOLS and is_feature_map(call.args[0]):
        return _tolerant_flow(call)
    if name in REDUCTIONS and _reduces_space(call):
        return Flow(FlowKind.FOLLOW, (call.args[0],))
    if name == "relax.nn.pad" and is_feature_map(call.args[0]) and _pads_space_with_constant(call):
        return Flow(FlowKind.FOLLOW, (call.args[0],))
    if name == "relax.image.resize2d" and is_feature_map(call.args[0]) and _resizes_nchw(call):
        return Flow(FlowKind.FOLLOW, (call.args[0],))
    if name == "relax.reshape" and squeezes_pixel(call):
        return Flow(FlowKind.FOLLOW, (call.args[0],))
    if name == "relax.strided_slice" and is_feature_map(call.args[0]):
        return _slice_flow(call)
    if name == "relax.layout_transform" and is_feature_map(call.args[0]):
        return _channel_move_flow(call)
    return _BOUNDARY


def is_feature_map(expr: relax.Expr) -> bool:
    """Whether it is a float32 tensor of static shape (N, C, H, W)."""
    shape = static_shape(expr)
    return shape is not None and len(shape) == 4 and str(expr.ty.dtype) == "float32"


def per_channel_constant(expr: relax.Expr, channels: int) -> bool:
    """Whether it is a constant for each channel: a scalar, (C, 1, 1) or (1, C, 1, 1)."""
    if not isinstance(expr, GenericConst):
        return False
    shape = tuple(int(extent) for extent in expr.value.shape)
    if all(extent == 1 for extent in shape):
        return True
    return shape in ((channels, 1, 1), (1, channels, 1, 1))


def squeezes_pixel(call: relax.Call) -> bool:
    """Whether (N, C, 1, 1) becomes (N, C), which moves no element in any blocked layout."""
    before, after = static_shape(call.args[0]), static_shape(call)
    if before is None or after is None or len(before) != 4:
        return False
    return before[2:] == (1, 1) and after == before[:2]


def _tolerant_flow(call: relax.Call) -> Flow:
    if op_name(call) in POOLS and str(call.attrs.layout) != "NCHW":
        return _BOUNDARY
    return Flow(FlowKind.FOLLOW, (call.args[0],))


def _concat_flow(call: relax.Call) -> Flow:
    fields = tuple(call.args[0]) if isinstance(call.args[0], relax.Tuple) else ()
    if not fields or not all(is_feature_map(field) for field in fields):
        return _BOUNDARY
    if call.attrs.axis is None or int(call.attrs.axis) % 4 == 0:
        return _BOUNDARY
    return Flow(FlowKind.JOIN, fields, tuple(sorted({_channels(field) for field in fields})))


def _slice_flow(call: relax.Call) -> Flow:
    """A slice of the image follows; a slice of the channels is a join of one operand.

    Its block divides the bounds of the slice, so that the slice takes whole blocks.
    """
    ranges = read_slice(call)
    if ranges is None or any(part.axis == 0 for part in ranges):
        return _BOUNDARY
    part = channel_range(ranges)
    if part is None:
        return Flow(FlowKind.FOLLOW, (call.args[0],))
    if part.stride != 1 or part.begin == part.end:
        return _BOUNDARY
    bounds = {_channels(call.args[0]), part.begin, part.end} - {0}
    return Flow(FlowKind.JOIN, (call.args[0],), tuple(sorted(bounds)))


def _channel_move_flow(call: relax.Call) -> Flow:
    move = read_channel_move(call)
    if move is None:
        return _BOUNDARY
    divided = move.channels_to_divide(_channels(call.args[0]))
    return Flow(FlowKind.JOIN, (call.args[0],), (divided,))


def _binary_flow(call: relax.Call) -> Flow:
    shape = static_shape(call)
    if shape is None or len(shape) != 4 or str(call.ty.dtype) != "float32":
        return _BOUNDARY
    channels = shape[1]
    constants = [arg for arg in call.args if isinstance(arg, GenericConst)]
    if not all(per_channel_constant(constant, channels) for constant in constants):
        return _BOUNDARY
    tensors = tuple(arg for arg in call.args if not isinstance(arg, GenericConst))
    if not all(is_feature_map(t) and _channels(t) in (1, channels) for t in tensors):
        return _BOUNDARY
    if len(tensors) == 1:
        same = _channels(tensors[0]) == channels
        return Flow(FlowKind.FOLLOW, tensors) if same else _BOUNDARY
    # A single channel broadcasts over any block.
    return Flow(FlowKind.JOIN, tensors, (channels,))


def _reduces_space(call: relax.Call) -> bool:
    if not is_feature_map(call.args[0]) or call.attrs.axis is None:
        return False
    return tuple(sorted(int(axis) % 4 for axis in call.attrs.axis)) == SPATIAL_AXES


def _pads_space_with_constant(call: relax.Call) -> bool:
    widths = [int(width) for width in call.attrs.pad_width]
    return not any(widths[:4]) and str(call.attrs.pad_mode) == "constant"


def _resizes_nchw(call: relax.Call) -> bool:
    """Whether it resizes NCHW to a static shape; every method reads each channel by itself."""
    return str(call.attrs.layout) == "NCHW" and is_feature_map(call)


def _channels(expr: relax.Expr) -> int:
    shape = static_shape(expr)
    assert shape is not None
    return shape[1]
