"""Recognise operations that move whole channels; they need no plain NCHW then.

y = reshape(x, (N, G, C / G, H, W))
y = permute_dims(y, (0, 2, 1, 3, 4))    ->    y = layout_transform(x, shuffle of G groups)
y = reshape(y, (N, C, H, W))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import call_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.channel_moves import (
    ChannelMove,
    Interleave,
    Shuffle,
    channel_move,
    read_channel_move,
)
from tvm_neocpu.relay_passes.layouts.flow import is_feature_map
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS, Range, read_slice, slice_of

DCR, CRD = (0, 3, 4, 1, 5, 2), (0, 1, 4, 2, 5, 3)


@dataclass(frozen=True)
class MarkChannelMoves:
    """Pixel shuffles and channel shuffles become one call each, parts of a split become slices.

    A pixel shuffle with the phases innermost (PyTorch's, DepthToSpace in its mode CRD) becomes a
    channel shuffle, which :class:`FoldChannelShuffle` may absorb, and a phase-major interleave.

    Needs: reshapes of reshapes are merged (:class:`Canonicalize`); feature maps are plain NCHW.
    Leaves: channel moves as calls that :func:`read_channel_move` reads; slices by channels.
    """

    name: ClassVar[str] = "mark-channel-moves"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if isinstance(value, relax.TupleGetItem):
        return _part_of_split(scope, value)
    if read_slice(value) is not None:
        return _slice_of_its_own_move(scope, value)
    return _move_from_chain(scope, value)


def _part_of_split(scope: Scope, item: relax.TupleGetItem) -> relax.Expr | None:
    """``split(x, axis=1)[i] -> strided_slice(x)``: each part can have a layout of its own."""
    split = call_of(scope.definition(item.tuple_value), "relax.split")
    if split is None or not is_feature_map(split.args[0]) or not is_feature_map(item):
        return None
    if int(split.attrs.axis) % 4 != CHANNELS:
        return None
    sizes = [field.shape.values[CHANNELS] for field in split.ty.fields]
    bounds = [sum(int(size) for size in sizes[:place]) for place in range(len(sizes) + 1)]
    part = Range(CHANNELS, bounds[item.index], bounds[item.index + 1])
    whole = scope.normalize(slice_of(split.args[0], [part]))
    own = _slice_of_its_own_move(scope, whole)
    return whole if own is None else own


def _slice_of_its_own_move(scope: Scope, call: relax.Call) -> relax.Expr | None:
    """Each slice of a shuffled tensor gets a shuffle of its own.

    # m = shuffle(x); a = m[:58]; b = m[58:]  ->  a = shuffle(x)[:58]; b = shuffle(x)[58:]

    Fused with its slice, a shuffle moves that part only.
    """
    shuffled = scope.definition(call.args[0])
    move = read_channel_move(shuffled)
    if move is None:
        return None
    again = scope.emit(channel_move(shuffled.args[0], move))
    return slice_of(again, read_slice(call) or ())


def _move_from_chain(scope: Scope, call: relax.Expr) -> relax.Expr | None:
    """``reshape(permute_dims(reshape(x)))`` as channel moves of ``x``; ``None`` if it is not."""
    permute = _operand_call(scope, call_of(call, "relax.reshape"), "relax.permute_dims")
    first = _operand_call(scope, permute, "relax.reshape")
    if first is None or permute.attrs.axes is None:
        return None
    data, middle = first.args[0], static_shape(first)
    if middle is None or not is_feature_map(data) or not is_feature_map(call):
        return None
    axes = tuple(int(axis) for axis in permute.attrs.axes)
    moves = _moves(static_shape(data), middle, axes, static_shape(call))
    if moves is None:
        return None
    for move in moves:
        data = scope.emit(channel_move(data, move))
    return data


def _operand_call(scope: Scope, call: relax.Call | None, op: str) -> relax.Call | None:
    return None if call is None else call_of(scope.definition(call.args[0]), op)


def _moves(
    before: tuple[int, ...], middle: tuple[int, ...], axes: tuple[int, ...], after: tuple[int, ...]
) -> tuple[ChannelMove, ...] | None:
    """The moves of (N, C, H, W) = ``before`` that the chain makes; ``None`` if there are none such.

    The chain reshapes to ``middle``, permutes by ``axes`` and reshapes to ``after``.
    """
    batch, channels, height, width = before
    if middle[0] != batch:
        return None
    if axes[:3] == (0, 2, 1) and axes[3:] == tuple(range(3, len(middle))):
        rest = math.prod(middle[3:]) == height * width
        return _shuffles(middle[1], channels) if rest and after == before else None
    if len(middle) != 6 or middle[4:] != (height, width):
        return None
    if axes == DCR:
        _, rows, columns, kept, *_ = middle
        first: tuple[ChannelMove, ...] = ()
    elif axes == CRD:
        _, kept, rows, columns, *_ = middle
        first = _shuffles(kept, channels)
    else:
        return None
    if after != (batch, kept, height * rows, width * columns):
        return None
    return (*first, Interleave(rows, columns)) if rows * columns > 1 else first


def _shuffles(groups: int, channels: int) -> tuple[ChannelMove, ...]:
    """The shuffle, or no move if every channel stays in its place."""
    return (Shuffle(groups),) if 1 < groups < channels else ()


__all__ = ["MarkChannelMoves"]
