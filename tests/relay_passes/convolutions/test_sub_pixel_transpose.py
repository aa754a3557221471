"""SubPixelTranspose, Before -> Expected; tests/networks/test_moved_networks.py has numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from one_function import Build, module_of
from tvm import relax
from tvm.relax.op import add, concat, multiply, strided_slice
from tvm.relax.op.nn import conv2d, conv2d_transpose

from tvm_neocpu.relay_passes.convolutions.sub_pixel_transpose import SubPixelTranspose
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, channel_move
from tvm_neocpu.relay_passes.linear.fold_linear_ops import FoldLinearOps

IMAGE = (1, 4, 5, 6)
INTERLEAVE = Interleave(2, 2)


def iohw(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype("float32")


def const(array: np.ndarray) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array, "float32"))


def assert_becomes(before: Build, expected: Build) -> None:
    mod = module_of(IMAGE, before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(SubPixelTranspose()(mod), module_of(IMAGE, expected))
    assert mod.script() == fingerprint, "the pass changed its argument"


def test_two_by_two_is_a_pointwise_convolution_without_a_zero() -> None:
    w = iohw(4, 3, 2, 2)
    pointwise = w.transpose(2, 3, 1, 0).reshape(12, 4, 1, 1)
    assert_becomes(
        lambda b, x: conv2d_transpose(x, const(w), strides=2),
        lambda b, x: channel_move(b.emit(conv2d(x, const(pointwise))), INTERLEAVE),
    )


def test_four_by_four_is_two_by_two_and_loses_its_rim() -> None:
    w = iohw(4, 3, 4, 4)
    # Phase p of the uncut rows reads taps p + 2 (this pixel) and p (the next one), in this order.
    phases = [w[:, :, p::2, q::2][:, :, ::-1, ::-1] for p in (0, 1) for q in (0, 1)]
    kernel = np.concatenate([phase.swapaxes(0, 1) for phase in phases])

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        wide = b.emit(conv2d(x, const(kernel), padding=1))
        whole = b.emit(channel_move(wide, INTERLEAVE))
        return strided_slice(whole, [2, 3], [1, 1], [11, 13], [1, 1])

    assert_becomes(lambda b, x: conv2d_transpose(x, const(w), strides=2, padding=1), expected)


def test_three_by_three_pads_behind_alone() -> None:
    """To twice the size: even rows read the middle tap, odd ones the outer two."""
    w = iohw(4, 1, 3, 3)
    by_phase = np.zeros((2, 2, 1, 4, 2, 2), "float32")
    reads = ([(0, 1)], [(0, 2), (1, 0)])  # (place in the window, tap)
    for p, rows in enumerate(reads):
        for q, columns in enumerate(reads):
            for m, r in rows:
                for n, s in columns:
                    by_phase[p, q, 0, :, m, n] = w[:, 0, r, s]
    kernel = by_phase.reshape(4, 4, 2, 2)
    assert_becomes(
        lambda b, x: conv2d_transpose(x, const(w), strides=2, padding=1, output_padding=1),
        lambda b, x: channel_move(
            b.emit(conv2d(x, const(kernel), padding=[0, 0, 1, 1])), INTERLEAVE
        ),
    )


def test_without_a_stride_the_kernel_is_flipped() -> None:
    w = iohw(4, 3, 3, 2)
    assert_becomes(
        lambda b, x: conv2d_transpose(x, const(w), padding=[1, 0, 2, 1], dilation=[1, 2]),
        lambda b, x: conv2d(
            x,
            const(w[:, :, ::-1, ::-1].swapaxes(0, 1)),
            padding=[1, 2, 0, 1],
            dilation=[1, 2],
        ),
    )


def test_with_groups_every_phase_is_a_convolution() -> None:
    w = iohw(4, 3, 1, 2)
    # Channels 0 and 1 are the first group, of outputs 0 to 2.
    phases = [w[..., q : q + 1].reshape(2, 2, 3).swapaxes(1, 2).reshape(6, 2, 1, 1) for q in (0, 1)]

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        parts = [b.emit(conv2d(x, const(phase), groups=2)) for phase in phases]
        return channel_move(b.emit(concat(parts, axis=1)), Interleave(1, 2))

    assert_becomes(lambda b, x: conv2d_transpose(x, const(w), strides=[1, 2], groups=2), expected)


def test_what_follows_is_in_the_weights() -> None:
    """FoldLinearOps knows transposed convolutions: scales are folded before the phases part."""
    w, scale, bias = iohw(4, 3, 2, 2), iohw(1, 3, 1, 1) + 1, iohw(1, 3, 1, 1)
    pointwise = (w * scale.reshape(3, 1, 1)).transpose(2, 3, 1, 0).reshape(12, 4, 1, 1)

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        up = b.emit(conv2d_transpose(x, const(w), strides=2))
        return add(b.emit(multiply(up, const(scale))), const(bias))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        up = b.emit(channel_move(b.emit(conv2d(x, const(pointwise))), INTERLEAVE))
        return add(up, const(bias))

    after = SubPixelTranspose()(FoldLinearOps()(module_of(IMAGE, before)))
    tvm.ir.assert_structural_equal(after, module_of(IMAGE, expected))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_not_understood_stays(dtype: str) -> None:
    weight = relax.const(np.ones((4, 3, 2, 2), dtype))

    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        made = weight if dtype == "float16" else b.emit(relax.op.ones((4, 3, 2, 2), dtype))
        return conv2d_transpose(x, made, strides=2)

    mod = module_of(IMAGE, build, dtype)
    tvm.ir.assert_structural_equal(SubPixelTranspose()(mod), mod)
