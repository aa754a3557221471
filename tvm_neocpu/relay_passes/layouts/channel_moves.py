"""Moves of whole channels, each as one Relax call: made here and recognised here.

The importer writes a pixel shuffle or a channel shuffle as a reshape, a transpose and a reshape.
One bijective index map describes it in NCHW, and in NCHW[x]c, where it moves vectors of x channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tvm_ffi
from tvm import relax, tirx

from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape

MOVE = "relax.layout_transform"


@dataclass(frozen=True)
class Interleave:
    """(N, rows * columns * K, H, W) -> (N, K, H * rows, W * columns); phase-major channels.

    Channel ``(p * columns + q) * K + k`` holds the pixels ``(y * rows + p, x * columns + q)`` of
    channel ``k``: ONNX's DepthToSpace in its mode DCR.
    """

    rows: int
    columns: int

    def channels_to_divide(self, channels: int) -> int:
        """A block must divide the channels of the result, so that it moves as a whole."""
        return channels // (self.rows * self.columns)


@dataclass(frozen=True)
class Shuffle:
    """Channel ``a * (C / groups) + b`` becomes channel ``b * groups + a`` (ShuffleNet)."""

    groups: int

    def channels_to_divide(self, channels: int) -> int:
        """A block must divide the channels; the result has as many."""
        return channels


ChannelMove = Interleave | Shuffle


def channel_move(data: relax.Expr, move: ChannelMove) -> relax.Expr:
    """The call that moves a tensor in NCHW (rank 4) or NCHW[x]c (rank 5); not yet emitted."""
    shape = static_shape(data)
    assert shape is not None
    return relax.op.layout_transform(data, _index_map(move, shape))


def read_channel_move(expr: relax.Expr) -> ChannelMove | None:
    """The move that :func:`channel_move` wrote; ``None`` for any other expression."""
    if op_name(expr) != MOVE:
        return None
    before, after = static_shape(expr.args[0]), static_shape(expr)
    if before is None or after is None or len(before) != len(after) or len(before) not in (4, 5):
        return None
    move = _interleave_between(before, after) or _shuffle_of(expr, before)
    if move is None:
        return None
    ours = tirx.IndexMap.from_func(_index_map(move, before))
    return move if tvm_ffi.structural_equal(expr.attrs.index_map, ours) else None


def _interleave_between(before: tuple[int, ...], after: tuple[int, ...]) -> Interleave | None:
    move = Interleave(after[2] // before[2], after[3] // before[3])
    if move == Interleave(1, 1) or after[1] * move.rows * move.columns != before[1]:
        return None
    return move


def _shuffle_of(expr: relax.Expr, shape: tuple[int, ...]) -> Shuffle | None:
    """A shuffle moves channel 1 to the place ``groups``."""
    channels, block = _channels_and_block(shape)
    first = [0, 1 // block, 0, 0, 1 % block][: len(shape)]
    if channels == 1:
        return None
    place = [int(index) for index in expr.attrs.index_map.map_indices(first)]
    groups = place[1] * block + (place[4] if len(place) == 5 else 0)
    return Shuffle(groups) if 1 < groups < channels and channels % groups == 0 else None


def _index_map(move: ChannelMove, shape: tuple[int, ...]) -> Callable[..., tuple[object, ...]]:
    channels, block = _channels_and_block(shape)
    if isinstance(move, Interleave):
        rows, columns, stored = move.rows, move.columns, shape[1] // (move.rows * move.columns)

        def pixel(n, o, y, x):
            phase = o // stored
            return n, o % stored, y * rows + phase // columns, x * columns + phase % columns

        return pixel if len(shape) == 4 else lambda n, o, y, x, i: (*pixel(n, o, y, x), i)
    groups, size = move.groups, channels // move.groups

    def place(channel):
        return channel % size * groups + channel // size

    if len(shape) == 4:
        return lambda n, c, y, x: (n, place(c), y, x)
    return lambda n, o, y, x, i: (
        n,
        place(o * block + i) // block,
        y,
        x,
        place(o * block + i) % block,
    )


def _channels_and_block(shape: tuple[int, ...]) -> tuple[int, int]:
    block = shape[4] if len(shape) == 5 else 1
    return shape[1] * block, block
