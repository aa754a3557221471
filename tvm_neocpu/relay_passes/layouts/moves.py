"""Operations that move data: concats, slices, shuffles of channels, gathers and stacks of images,
reshapes of one pixel.
"""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.layouts.channel_moves import MOVE, channel_move, read_channel_move
from tvm_neocpu.relay_passes.layouts.depth_windows import (
    IMAGES,
    RESHAPE,
    TAKE,
    is_stack,
    takes_images,
)
from tvm_neocpu.relay_passes.layouts.flow import (
    BOUNDARY,
    BlockedOperands,
    Flow,
    FlowKind,
    LayoutRule,
    channels_of,
    follow_first,
    is_feature_map,
)
from tvm_neocpu.relay_passes.layouts.slices import blocked_slice, channel_range, read_slice
from tvm_neocpu.relay_passes.operators.new.depth_rows import DEPTH_ROWS, depth_rows, read_depth_rows


def _concat_flow(call: relax.Call) -> Flow:
    fields = tuple(call.args[0]) if isinstance(call.args[0], relax.Tuple) else ()
    if not fields or not all(is_feature_map(field) for field in fields):
        return BOUNDARY
    if call.attrs.axis is None or int(call.attrs.axis) % 4 == 0:
        return BOUNDARY
    return Flow(FlowKind.JOIN, fields, tuple(sorted({channels_of(field) for field in fields})))


def _concat(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    return relax.op.concat(list(operands.new), axis=int(call.attrs.axis) % 4)


def _slice_flow(call: relax.Call) -> Flow:
    """Part of the batch or image follows; a part of the channels keeps blocks its bounds keep."""
    ranges = read_slice(call) if is_feature_map(call.args[0]) else None
    if ranges is None:
        return BOUNDARY
    part = channel_range(ranges)
    if part is None:
        return follow_first(call)
    if part.stride != 1 or part.begin == part.end:
        return BOUNDARY
    bounds = {channels_of(call.args[0]), part.begin, part.end} - {0}
    return Flow(FlowKind.JOIN, (call.args[0],), tuple(sorted(bounds)))


def _slice(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    return blocked_slice(call, operands.new[0], operands.layout)


def _channel_move_flow(call: relax.Call) -> Flow:
    move = read_channel_move(call) if is_feature_map(call.args[0]) else None
    if move is None:
        return BOUNDARY
    divided = move.channels_to_divide(channels_of(call.args[0]))
    return Flow(FlowKind.JOIN, (call.args[0],), (divided,))


def _channel_move(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    move = read_channel_move(call)
    assert move is not None
    return channel_move(operands.new[0], move)


def _take_flow(call: relax.Call) -> Flow:
    """Images by constant numbers, as a join: a transform belongs in front, where they are fewer.

    The block divides the channels of one image, so that a stack moves whole blocks.
    """
    plain = is_feature_map(call.args[0]) and is_feature_map(call)
    if not plain or not takes_images(call):
        return BOUNDARY
    return Flow(FlowKind.JOIN, (call.args[0],), (channels_of(call),))


def _take(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    return relax.op.take(operands.new[0], call.args[1], IMAGES, str(call.attrs.mode))


def _rows_flow(call: relax.Call) -> Flow:
    """As a gather of images: a transform belongs in front."""
    plain = is_feature_map(call.args[0]) and is_feature_map(call)
    return Flow(FlowKind.JOIN, (call.args[0],), (channels_of(call),)) if plain else BOUNDARY


def _rows(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    read = read_depth_rows(call)
    assert read is not None
    return depth_rows(operands.new[0], read[1])


def _reshape_flow(call: relax.Call) -> Flow:
    """Images side by side, a join whose block divides the channels of one image; or a squeeze."""
    if is_feature_map(call.args[0]) and is_stack(call):
        return Flow(FlowKind.JOIN, (call.args[0],), (channels_of(call.args[0]),))
    return _squeeze_flow(call)


def _reshape(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    shape, (data,) = static_shape(call), operands.new
    if is_stack(call):
        shape = operands.layout.shape_of(shape)
    return relax.op.reshape(data, shape)


def _squeeze_flow(call: relax.Call) -> Flow:
    """A reshape between (N, C, 1, 1) and (N, C): the same memory in every blocked layout."""
    before, after = static_shape(call.args[0]), static_shape(call)
    if before is None or after is None or len(before) != 4:
        return BOUNDARY
    return follow_first(call) if before[2:] == (1, 1) and after == before[:2] else BOUNDARY


RULES = {
    "relax.concat": LayoutRule(_concat_flow, _concat),
    "relax.strided_slice": LayoutRule(_slice_flow, _slice),
    MOVE: LayoutRule(_channel_move_flow, _channel_move),
    TAKE: LayoutRule(_take_flow, _take),
    RESHAPE: LayoutRule(_reshape_flow, _reshape),
    DEPTH_ROWS: LayoutRule(_rows_flow, _rows),
}
