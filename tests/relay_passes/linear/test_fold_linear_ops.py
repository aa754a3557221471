"""FoldLinearOps, Before -> Expected."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from one_function import Build, channels, const, module_of, normalized, whole
from tvm import relax
from tvm.relax.op import add, divide, matmul, multiply, negative, subtract
from tvm.relax.op.nn import conv2d, conv2d_transpose, relu

from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.linear.fold_linear_ops import FoldLinearOps


def assert_folds(shape: tuple[int, ...], before: Build, expected: Build) -> None:
    mod = module_of(shape, before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(FoldLinearOps()(mod), module_of(shape, expected))
    assert mod.script() == fingerprint, "the pass changed its argument"


def arrays_of(mod: tvm.IRModule) -> list[np.ndarray]:
    """The constants, as often as they are read."""
    found: list[np.ndarray | None] = []
    relax.analysis.post_order_visit(mod["main"], lambda expr: found.append(array_of(expr)))
    return [array for array in found if array is not None]


IMAGE = (1, 4, 6, 6)
W3, W1 = whole(6, 4, 3, 3), whole(6, 4, 1, 1)
GAMMA, BETA = 2 * whole(6, seed=1), whole(6, seed=2)
SCALE, SHIFT = whole(6, seed=3), whole(6, seed=4)
SCALE_IN, SHIFT_IN = whole(4, seed=5), whole(4, seed=6)
PADDED = {"padding": 1}


def rows(vector: np.ndarray) -> np.ndarray:
    """A factor by output channel, against an OIHW weight."""
    return vector.reshape(-1, 1, 1, 1)


def test_in_place_a_weight_of_one_reader_is_overwritten_and_no_other() -> None:
    def both(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        shared = const(W3)
        first, second, third = (conv2d(x, w, **PADDED) for w in (const(W3), shared, shared))
        normal = (normalized(part, GAMMA, BETA) for part in (first, second))
        return add(add(*normal), third)

    expected = FoldLinearOps()(module_of(IMAGE, both))
    mod = module_of(IMAGE, both)
    tvm.ir.assert_structural_equal(FoldLinearOps(in_place=True)(mod), expected)
    weights = [array for array in arrays_of(mod) if array.shape == W3.shape]
    assert sorted(np.array_equal(weight, W3) for weight in weights) == [False, True, True]


# --- after a convolution or dense layer ----------------------------------------------------------


def test_batch_norm_behind_a_convolution_leaves_one_bias() -> None:
    assert_folds(
        IMAGE,
        lambda b, x: normalized(conv2d(x, const(W3), **PADDED), GAMMA, BETA),
        lambda b, x: add(conv2d(x, const(W3 * rows(GAMMA / 2)), **PADDED), channels(BETA - GAMMA)),
    )


def test_bias_batch_norm_scale_and_shift_become_one_bias() -> None:
    """DenseNet as Caffe exported it: convolution, batch norm, scale layer."""
    factor = GAMMA / 2 * SCALE
    shift = ((SHIFT - 2) * GAMMA / 2 + BETA) * SCALE + SHIFT

    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = normalized(add(conv2d(x, const(W3)), channels(SHIFT)), GAMMA, BETA)
        return add(multiply(y, const(SCALE.reshape(6, 1, 1))), const(SHIFT.reshape(6, 1, 1)))

    assert_folds(
        IMAGE,
        before,
        lambda b, x: add(conv2d(x, const(W3 * rows(factor))), channels(shift)),
    )


def test_scalars_become_a_bias_vector() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = divide(negative(conv2d(x, const(W3))), relax.const(2.0, "float32"))
        return subtract(relax.const(3.0, "float32"), y)

    assert_folds(
        IMAGE,
        before,
        lambda b, x: add(conv2d(x, const(W3 / 2)), channels(np.full(6, 3.0))),
    )


def test_bias_of_any_shape_is_stored_as_one_by_channels() -> None:
    assert_folds(
        IMAGE,
        lambda b, x: add(const(SHIFT.reshape(6, 1, 1)), conv2d(x, const(W3))),
        lambda b, x: add(conv2d(x, const(W3)), channels(SHIFT)),
    )


def test_negative_and_zero_scales_fold() -> None:
    scale = np.array([0, -1, 2, 0, -3, 1], "float32")
    assert_folds(
        IMAGE,
        lambda b, x: multiply(conv2d(x, const(W3)), channels(scale)),
        lambda b, x: conv2d(x, const(W3 * rows(scale))),
    )


@pytest.mark.parametrize("groups", [2, 4])
def test_scale_behind_a_grouped_convolution(groups: int) -> None:
    weight, scale = whole(8, 4 // groups, 3, 3), whole(8, seed=3)
    assert_folds(
        IMAGE,
        lambda b, x: multiply(conv2d(x, const(weight), groups=groups), channels(scale)),
        lambda b, x: conv2d(x, const(weight * rows(scale)), groups=groups),
    )


def test_batch_norm_behind_a_grouped_transposed_convolution() -> None:
    weight = whole(4, 3, 2, 2)
    window = {"strides": 2, "padding": 1, "groups": 2}
    by_group = (GAMMA / 2).reshape(2, 1, 3, 1, 1)
    scaled = (weight.reshape(2, 2, 3, 2, 2) * by_group).reshape(weight.shape)
    assert_folds(
        IMAGE,
        lambda b, x: normalized(conv2d_transpose(x, const(weight), **window), GAMMA, BETA),
        lambda b, x: add(conv2d_transpose(x, const(scaled), **window), channels(BETA - GAMMA)),
    )


def test_batch_norm_behind_a_dense_layer() -> None:
    weight = whole(4, 6)
    assert_folds(
        (2, 4),
        lambda b, x: normalized(add(matmul(x, const(weight)), const(SHIFT)), GAMMA, BETA),
        lambda b, x: add(
            matmul(x, const(weight * GAMMA / 2)), const((SHIFT - 2) * GAMMA / 2 + BETA)
        ),
    )


# --- before one ----------------------------------------------------------------------------------


def test_scale_before_a_padded_convolution() -> None:
    assert_folds(
        IMAGE,
        lambda b, x: conv2d(multiply(x, channels(SCALE_IN)), const(W3), **PADDED),
        lambda b, x: conv2d(x, const(W3 * SCALE_IN.reshape(1, 4, 1, 1)), **PADDED),
    )


def test_scale_and_shift_before_an_unpadded_convolution() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = add(multiply(x, channels(SCALE_IN)), channels(SHIFT_IN))
        return add(conv2d(y, const(W3)), channels(SHIFT))

    bias = (W3 * SHIFT_IN.reshape(1, 4, 1, 1)).sum(axis=(1, 2, 3)) + SHIFT
    assert_folds(
        IMAGE,
        before,
        lambda b, x: add(conv2d(x, const(W3 * SCALE_IN.reshape(1, 4, 1, 1))), channels(bias)),
    )


@pytest.mark.parametrize("groups", [2, 4])
def test_affine_before_a_grouped_convolution(groups: int) -> None:
    weight = whole(8, 4 // groups, 3, 3)
    factor, offset = (
        np.repeat(v.reshape(groups, -1), 8 // groups, axis=0)[..., None, None]
        for v in (SCALE_IN, SHIFT_IN)
    )
    assert_folds(
        IMAGE,
        lambda b, x: conv2d(
            add(multiply(x, channels(SCALE_IN)), channels(SHIFT_IN)), const(weight), groups=groups
        ),
        lambda b, x: add(
            conv2d(x, const(weight * factor), groups=groups),
            channels((weight * offset).sum(axis=(1, 2, 3))),
        ),
    )


def test_affine_before_a_dense_layer() -> None:
    weight = whole(4, 6)
    assert_folds(
        (2, 4),
        lambda b, x: matmul(add(multiply(x, const(SCALE_IN)), const(SHIFT_IN)), const(weight)),
        lambda b, x: add(matmul(x, const(weight * SCALE_IN[:, None])), const(SHIFT_IN @ weight)),
    )


def test_scale_before_a_transposed_convolution() -> None:
    weight = whole(4, 6, 2, 2)
    assert_folds(
        IMAGE,
        lambda b, x: conv2d_transpose(multiply(x, channels(SCALE_IN)), const(weight), strides=2),
        lambda b, x: conv2d_transpose(x, const(weight * rows(SCALE_IN)), strides=2),
    )


# --- two of a kind -------------------------------------------------------------------------------


def test_dense_behind_dense_merges_when_the_product_is_no_larger() -> None:
    first, second = whole(4, 6), whole(6, 3)
    assert_folds(
        (2, 4),
        lambda b, x: add(
            matmul(add(matmul(x, const(first)), const(SHIFT)), const(second)), const(whole(3))
        ),
        lambda b, x: add(matmul(x, const(first @ second)), const(SHIFT @ second + whole(3))),
    )


def test_pointwise_behind_a_strided_convolution_merges() -> None:
    second = whole(5, 6, 1, 1)
    merged = np.einsum("om,mikl->oikl", second[..., 0, 0], W3)
    assert_folds(
        (1, 4, 9, 9),
        lambda b, x: conv2d(
            add(conv2d(x, const(W3), strides=2, padding=1), channels(SHIFT)),
            const(second),
            strides=2,
        ),
        lambda b, x: add(
            conv2d(x, const(merged), strides=4, padding=1), channels(second[..., 0, 0] @ SHIFT)
        ),
    )


def test_convolution_behind_a_pointwise_one_merges() -> None:
    second = whole(3, 6, 3, 3)
    merged = np.einsum("omkl,mi->oikl", second, W1[..., 0, 0])
    assert_folds(
        IMAGE,
        lambda b, x: conv2d(conv2d(x, const(W1)), const(second), padding=1),
        lambda b, x: conv2d(x, const(merged), padding=1),
    )


def test_two_convolutions_of_equal_groups_merge_by_group() -> None:
    first, second = whole(4, 2, 3, 3), whole(4, 2, 1, 1)
    merged = np.concatenate(
        [np.einsum("om,mikl->oikl", second[g : g + 2, :, 0, 0], first[g : g + 2]) for g in (0, 2)]
    )
    assert_folds(
        IMAGE,
        lambda b, x: conv2d(conv2d(x, const(first), groups=2), const(second), groups=2),
        lambda b, x: conv2d(x, const(merged), groups=2),
    )


def test_batch_size_may_be_unknown() -> None:
    shape = (tvm.tirx.Var("n", "int64"), 4, 6, 6)
    second = whole(2, 6, 1, 1)
    merged = np.einsum("om,mikl->oikl", second[..., 0, 0], W3)
    before = module_of(shape, lambda b, x: conv2d(conv2d(x, const(W3)), const(second)))
    expected = module_of(shape, lambda b, x: conv2d(x, const(merged)))
    tvm.ir.assert_structural_equal(FoldLinearOps()(before), expected)


# --- a batch norm without a partner --------------------------------------------------------------


def test_lone_batch_norm_becomes_multiply_and_add() -> None:
    gamma, beta = 2 * whole(4), whole(4, seed=1)
    assert_folds(
        IMAGE,
        lambda b, x: relu(normalized(x, gamma, beta)),
        lambda b, x: relu(add(multiply(x, channels(gamma / 2)), channels(beta - gamma))),
    )


def test_convolution_with_a_second_reader_is_not_duplicated() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = b.emit(conv2d(x, const(W3)))
        return add(relu(normalized(y, GAMMA, BETA)), y)

    def expected(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = b.emit(conv2d(x, const(W3)))
        z = add(multiply(y, channels(GAMMA / 2)), channels(BETA - GAMMA))
        return add(relu(z), y)

    assert_folds(IMAGE, before, expected)
