"""MarkChannelMoves, Before -> Expected."""

from __future__ import annotations

from functools import partial

import pytest
import tvm
from one_function import Build, module_of
from tvm import relax

from tvm_neocpu.relay_passes.channels.mark_channel_moves import MarkChannelMoves
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, Shuffle, channel_move

op = relax.op

IMAGE = (2, 12, 3, 5)
module = partial(module_of, IMAGE)


def chain(middle: tuple[int, ...], axes: list[int], after: tuple[int, ...]) -> Build:
    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        apart = b.emit(op.reshape(x, middle))
        return op.reshape(b.emit(op.permute_dims(apart, axes)), after)

    return build


def moves(*each: Interleave | Shuffle) -> Build:
    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        for move in each[:-1]:
            x = b.emit(channel_move(x, move))
        return channel_move(x, each[-1])

    return build


def part(x: relax.Expr, begin: int, end: int) -> relax.Expr:
    return op.strided_slice(x, [1], [begin], [end], [1])


CHAINS: dict[str, tuple[Build, Build]] = {
    "DepthToSpace, DCR": (
        chain((2, 2, 3, 2, 3, 5), [0, 3, 4, 1, 5, 2], (2, 2, 6, 15)),
        moves(Interleave(2, 3)),
    ),
    "DepthToSpace, CRD": (
        chain((2, 3, 2, 2, 3, 5), [0, 1, 4, 2, 5, 3], (2, 3, 6, 10)),
        moves(Shuffle(3), Interleave(2, 2)),
    ),
    "to a single channel both are one": (
        chain((2, 1, 4, 3, 3, 5), [0, 1, 4, 2, 5, 3], (2, 1, 12, 15)),
        moves(Interleave(4, 3)),
    ),
    "channel shuffle": (
        chain((2, 3, 4, 3, 5), [0, 2, 1, 3, 4], IMAGE),
        moves(Shuffle(3)),
    ),
    "channel shuffle of flat images": (
        chain((2, 4, 3, 15), [0, 2, 1, 3], IMAGE),
        moves(Shuffle(4)),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_become_moves(name: str) -> None:
    before, expected = CHAINS[name]
    mod = module(before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(MarkChannelMoves()(mod), module(expected))
    assert mod.script() == fingerprint, "the pass changed its argument"


def test_shuffles_of_one_group_vanish() -> None:
    for middle in ((2, 1, 12, 3, 5), (2, 12, 1, 3, 5)):
        nothing = chain(middle, [0, 2, 1, 3, 4], IMAGE)
        mod = module(lambda b, x, same=nothing: op.nn.relu(b.emit(same(b, x))))
        expected = module(lambda b, x: op.nn.relu(x))
        tvm.ir.assert_structural_equal(MarkChannelMoves()(mod), expected)


STAYS: dict[str, Build] = {
    "space to depth": chain((2, 12, 1, 3, 1, 5), [0, 3, 5, 1, 2, 4], (2, 180, 1, 1)),
    "rows shuffled": chain((2, 12, 3, 1, 5), [0, 1, 3, 2, 4], IMAGE),
    "other axes": chain((2, 2, 3, 2, 3, 5), [0, 3, 1, 4, 5, 2], (2, 2, 6, 15)),
    "columns before rows": chain((2, 2, 3, 2, 3, 5), [0, 3, 4, 1, 5, 2], (2, 2, 15, 6)),
    "batches mixed": chain((6, 2, 2, 3, 5), [0, 2, 1, 3, 4], IMAGE),
    "not back to channels": chain((2, 3, 4, 3, 5), [0, 2, 1, 3, 4], (2, 4, 9, 5)),
    "channels with rows": chain((2, 9, 4, 1, 5), [0, 2, 1, 3, 4], IMAGE),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_moves_no_whole_channels_stays(name: str) -> None:
    mod = module(STAYS[name])
    tvm.ir.assert_structural_equal(MarkChannelMoves()(mod), mod)


def test_the_parts_of_a_split_are_slices() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        parts = b.emit(op.split(x, [2, 7], axis=-3))
        first, last = (b.emit(relax.TupleGetItem(parts, place)) for place in (0, 2))
        return op.concat([last, first], axis=1)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        first, last = b.emit(part(x, 0, 2)), b.emit(part(x, 7, 12))
        return op.concat([last, first], axis=1)

    tvm.ir.assert_structural_equal(MarkChannelMoves()(module(before)), module(expected))


def test_a_split_of_rows_stays() -> None:
    mod = module(lambda b, x: relax.TupleGetItem(b.emit(op.split(x, 3, axis=2)), 1))
    tvm.ir.assert_structural_equal(MarkChannelMoves()(mod), mod)


def test_every_slice_shuffles_for_itself() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        shuffled = b.emit(chain((2, 3, 4, 3, 5), [0, 2, 1, 3, 4], IMAGE)(b, x))
        parts = b.emit(op.split(shuffled, 2, axis=1))
        left, right = (b.emit(relax.TupleGetItem(parts, place)) for place in (0, 1))
        return op.add(left, right)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        left = b.emit(part(b.emit(channel_move(x, Shuffle(3))), 0, 6))
        right = b.emit(part(b.emit(channel_move(x, Shuffle(3))), 6, 12))
        return op.add(left, right)

    tvm.ir.assert_structural_equal(MarkChannelMoves()(module(before)), module(expected))
