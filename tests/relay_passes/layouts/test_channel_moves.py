"""Channel moves: made, recognised, and the same in every block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, te

from tvm_neocpu.core.network.layout import Layout, factors
from tvm_neocpu.relay_passes.layouts.channel_moves import (
    ChannelMove,
    Interleave,
    Shuffle,
    channel_move,
    read_channel_move,
)
from tvm_neocpu.relay_passes.operators.layout_transform import transform
from tvm_neocpu.topi.image import channel_moves as computed

BUILDER = relax.BlockBuilder()


def tensor(*shape: int) -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, "float32"))


def moved(move: ChannelMove, *shape: int) -> relax.Expr:
    return BUILDER.normalize(channel_move(tensor(*shape), move))


CASES: dict[str, tuple[ChannelMove, tuple[int, ...], tuple[int, ...]]] = {
    "interleave": (Interleave(2, 3), (2, 30, 4, 5), (2, 5, 8, 15)),
    "interleave of rows": (Interleave(2, 1), (1, 4, 1, 1), (1, 2, 2, 1)),
    "interleave of blocks": (Interleave(2, 2), (1, 12, 4, 5, 8), (1, 3, 8, 10, 8)),
    "interleave to one block": (Interleave(1, 3), (1, 3, 4, 5, 7), (1, 1, 4, 15, 7)),
    "shuffle": (Shuffle(3), (2, 12, 4, 5), (2, 12, 4, 5)),
    "shuffle of a prime number": (Shuffle(2), (1, 14, 1, 1), (1, 14, 1, 1)),
    "shuffle of blocks": (Shuffle(3), (1, 4, 4, 5, 6), (1, 4, 4, 5, 6)),
    "shuffle of one block": (Shuffle(4), (1, 1, 4, 5, 16), (1, 1, 4, 5, 16)),
    "shuffle of blocks of one": (Shuffle(4), (1, 16, 4, 5, 1), (1, 16, 4, 5, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_move_is_recognised(name: str) -> None:
    move, before, after = CASES[name]
    call = moved(move, *before)
    assert tuple(int(extent) for extent in call.ty.shape) == after
    assert read_channel_move(call) == move


FOREIGN: dict[str, relax.Expr] = {
    "into blocks": transform(tensor(1, 16, 4, 4), (1, 16, 4, 4), Layout(0), Layout(8)),
    "between blocks": transform(tensor(1, 2, 4, 4, 8), (1, 16, 4, 4), Layout(8), Layout(4)),
    "to NHWC": relax.op.layout_transform(tensor(1, 4, 4, 4), lambda n, c, y, x: (n, y, x, c)),
    "shuffled rows": relax.op.layout_transform(
        tensor(1, 4, 4, 2), lambda n, c, y, x: (n, c, y % 2 * 2 + y // 2, x)
    ),
    "channels and rows": relax.op.layout_transform(
        tensor(1, 4, 4, 2), lambda n, c, y, x: (n, c % 2 * 2 + c // 2, y % 2 * 2 + y // 2, x)
    ),
    "nothing": relax.op.layout_transform(tensor(1, 4, 2, 2), lambda n, c, y, x: (n, c, y, x)),
    "phases innermost": relax.op.layout_transform(
        tensor(1, 8, 2, 2), lambda n, c, y, x: (n, c // 4, y * 2 + c % 4 // 2, x * 2 + c % 2)
    ),
    "another operator": relax.op.nn.relu(tensor(1, 4, 2, 2)),
    "a single channel": relax.op.layout_transform(
        tensor(1, 1, 4, 2), lambda n, c, y, x: (n, c, y % 2 * 2 + y // 2, x)
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_nothing_else_is_taken_for_one(name: str) -> None:
    assert read_channel_move(BUILDER.normalize(FOREIGN[name])) is None


def run(compute: Callable[[te.Tensor], te.Tensor], data: np.ndarray) -> np.ndarray:
    x = te.placeholder(data.shape, "float32", name="x")
    y = compute(x)
    built = tvm.compile(te.create_prim_func([x, y]), target=tvm.target.Target({"kind": "llvm"}))
    out = tvm.runtime.tensor(np.zeros([int(extent) for extent in y.shape], "float32"))
    built(tvm.runtime.tensor(data), out)
    return out.numpy()


def blocked(data: np.ndarray, block: int) -> np.ndarray:
    batch, channels, height, width = data.shape
    split = data.reshape(batch, channels // block, block, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def interleaved(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    batch, channels, height, width = x.shape
    kept = channels // (rows * columns)
    phases = x.reshape(batch, rows, columns, kept, height, width).transpose(0, 3, 4, 1, 5, 2)
    return phases.reshape(batch, kept, height * rows, width * columns)


def shuffled(x: np.ndarray, groups: int) -> np.ndarray:
    batch, channels, *image = x.shape
    return x.reshape(batch, groups, channels // groups, *image).swapaxes(1, 2).reshape(x.shape)


def images(channels: int) -> np.ndarray:
    size = 2 * channels * 6
    return np.random.default_rng(0).permutation(size).reshape(2, channels, 2, 3).astype("float32")


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 12), st.data())
@settings(max_examples=12)
def test_interleaving_is_depth_to_space(
    rows: int, columns: int, kept: int, data: st.DataObject
) -> None:
    x = images(rows * columns * kept)
    expected = interleaved(x, rows, columns)
    np.testing.assert_array_equal(run(lambda t: computed.interleave(t, rows, columns), x), expected)
    block = data.draw(st.sampled_from(factors(kept)))
    found = run(lambda t: computed.interleave(t, rows, columns), blocked(x, block))
    np.testing.assert_array_equal(found, blocked(expected, block))


@given(st.integers(2, 4), st.integers(2, 6), st.data())
@settings(max_examples=12)
def test_shuffling_exchanges_groups_and_their_members(
    groups: int, size: int, data: st.DataObject
) -> None:
    x = images(groups * size)
    expected = shuffled(x, groups)
    np.testing.assert_array_equal(run(lambda t: computed.shuffle(t, groups), x), expected)
    block = data.draw(st.sampled_from(factors(groups * size)))
    found = run(lambda t: computed.shuffle(t, groups), blocked(x, block))
    np.testing.assert_array_equal(found, blocked(expected, block))


def test_a_block_divides_what_comes_out() -> None:
    assert Interleave(2, 3).channels_to_divide(96) == 16
    assert Shuffle(4).channels_to_divide(96) == 96
