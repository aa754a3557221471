"""FoldChannelShuffle, Before -> Expected."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tvm
from one_function import Build, const, module_of
from tvm import relax
from tvm.relax.op import add, multiply, strided_slice
from tvm.relax.op.nn import conv2d, instance_norm, max_pool2d, relu, softmax

from tvm_neocpu.relay_passes.channels.fold_channel_shuffle import FoldChannelShuffle, shuffled_order
from tvm_neocpu.relay_passes.layouts.channel_moves import Shuffle, channel_move

IMAGE = (1, 6, 4, 4)
module = partial(module_of, IMAGE)
# Of channels (0 1 2 3 4 5), in two groups of three.
ORDER = [0, 3, 1, 4, 2, 5]
BACK = [0, 2, 4, 1, 3, 5]


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype("float32")


def shuffle(x: relax.Expr) -> relax.Expr:
    return channel_move(x, Shuffle(2))


def assert_becomes(before: Build, expected: Build) -> None:
    mod = module(before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(FoldChannelShuffle()(mod), module(expected))
    assert mod.script() == fingerprint, "the pass changed its argument"


DENSE, WINDOWS, VECTOR = numbers(6, 6, 1, 1), numbers(6, 1, 3, 3), numbers(6, 1, 1)


def test_the_order_is_shuffle_nets() -> None:
    assert list(shuffled_order(6, 2)) == ORDER
    assert list(np.argsort(ORDER)) == BACK


def test_a_shuffle_goes_upstream_through_what_works_on_every_channel_alike() -> None:
    def build(dense: np.ndarray, windows: np.ndarray, vector: np.ndarray, last: Build) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            y = b.emit(conv2d(x, const(dense)))
            y = b.emit(conv2d(b.emit(relu(y)), const(windows), padding=1, groups=6))
            y = b.emit(add(b.emit(multiply(y, const(vector))), relax.const(np.float32(2))))
            return softmax(last(b, b.emit(max_pool2d(y, [2, 2]))), axis=1)

        return emit

    assert_becomes(
        build(DENSE, WINDOWS, VECTOR, lambda b, x: b.emit(shuffle(x))),
        build(DENSE[ORDER], WINDOWS[ORDER], VECTOR[ORDER], lambda b, x: x),
    )


def test_a_shuffle_goes_downstream_into_every_reader() -> None:
    def build(order: list[int], first: Build) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            y = b.emit(relu(first(b, x)))
            left = b.emit(conv2d(y, const(DENSE[:, order])))
            y = b.emit(conv2d(y, const(WINDOWS[order]), padding=1, groups=6))
            y = b.emit(strided_slice(y, [2, 3], [0, 0], [4, 4]))
            return add(left, b.emit(conv2d(y, const(DENSE[:, order]))))

        return emit

    whole = list(range(6))
    assert_becomes(
        build(whole, lambda b, x: b.emit(shuffle(x))),
        build(BACK, lambda b, x: x),
    )


def test_numbers_stay() -> None:
    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(multiply(b.emit(shuffle(x)), const(VECTOR)))
        y = b.emit(shuffle(b.emit(conv2d(y, const(DENSE)))))
        return conv2d(y, const(DENSE))

    mod = module(build)
    folded = FoldChannelShuffle()(mod)
    assert "layout_transform" not in folded.script()
    data = tvm.runtime.tensor(numbers(*IMAGE))
    found, expected = (
        relax.VirtualMachine(tvm.compile(each, tvm.target.Target({"kind": "llvm"})), tvm.cpu())[
            "main"
        ](data)
        for each in (folded, mod)
    )
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def grouped(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    """ShuffleNet-v1: a shuffle between groups carries channels from one to the other."""
    y = b.emit(shuffle(b.emit(conv2d(x, const(DENSE[:, :3]), groups=2))))
    return conv2d(y, const(DENSE[:, :3]), groups=2)


def read_twice(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    """Before the shuffle somebody else reads, after it somebody who mixes channels."""
    y = b.emit(conv2d(x, const(DENSE)))
    return add(y, b.emit(softmax(b.emit(shuffle(y)), axis=1)))


def summed(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    y = b.emit(shuffle(b.emit(add(b.emit(conv2d(x, const(DENSE))), x))))
    return add(y, b.emit(conv2d(y, const(DENSE))))


def shuffled_norm(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    """The norm's constants have the channels as their only axis."""
    scale = const(VECTOR.reshape(-1))
    x = b.emit(conv2d(x, const(DENSE)))
    y = b.emit(instance_norm(x, scale, scale, channel_axis=1, axes=[2, 3]))
    return shuffle(y)


@pytest.mark.parametrize(
    "build", [grouped, read_twice, summed, shuffled_norm, lambda b, x: shuffle(x)]
)
def test_what_nobody_can_absorb_stays(build: Build) -> None:
    mod = module(build)
    tvm.ir.assert_structural_equal(FoldChannelShuffle()(mod), mod)
