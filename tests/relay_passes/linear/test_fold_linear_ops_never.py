"""FoldLinearOps: what must never be folded, because it would be wrong or larger."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from one_function import Build, channels, const, module_of, whole
from tvm import relax
from tvm.relax.op import add, matmul, multiply, subtract
from tvm.relax.op.nn import batch_norm, conv2d, conv2d_transpose, relu

from tvm_neocpu.relay_passes.linear.fold_linear_ops import FoldLinearOps


def assert_stays(shape: tuple[int, ...], build: Build) -> None:
    mod = module_of(shape, build)
    tvm.ir.assert_structural_equal(FoldLinearOps()(mod), mod)


IMAGE = (1, 4, 6, 6)
W3 = whole(6, 4, 3, 3)
SCALE, SHIFT = whole(6, seed=3), whole(6, seed=4)
SCALE_IN, SHIFT_IN = whole(4, seed=5), whole(4, seed=6)
PADDED = {"padding": 1}


def test_shift_stays_before_a_padded_convolution() -> None:
    assert_stays(IMAGE, lambda b, x: conv2d(add(x, channels(SHIFT_IN)), const(W3), **PADDED))
    assert_stays(
        IMAGE,
        lambda b, x: conv2d(
            add(multiply(x, channels(SCALE_IN)), channels(SHIFT_IN)), const(W3), **PADDED
        ),
    )


def test_bias_stays_between_a_convolution_and_a_padded_one() -> None:
    second = whole(3, 6, 1, 1)
    assert_stays(
        IMAGE,
        lambda b, x: conv2d(add(conv2d(x, const(W3)), channels(SHIFT)), const(second), **PADDED),
    )


def test_shift_stays_before_a_transposed_convolution() -> None:
    weight = const(whole(4, 6, 2, 2))
    assert_stays(IMAGE, lambda b, x: conv2d_transpose(add(x, channels(SHIFT_IN)), weight))


def test_relu_between_stops_folding() -> None:
    assert_stays(
        IMAGE,
        lambda b, x: multiply(relu(add(conv2d(x, const(W3)), channels(SHIFT))), channels(SCALE)),
    )


@pytest.mark.parametrize("shape", [(1, 1, 4, 4), (1, 6, 4, 4), (1, 6, 1, 4)])
def test_constant_that_varies_over_pixels_stays(shape: tuple[int, ...]) -> None:
    assert_stays(IMAGE, lambda b, x: multiply(conv2d(x, const(W3)), const(whole(*shape))))


def test_vector_along_the_width_stays() -> None:
    assert_stays(IMAGE, lambda b, x: multiply(conv2d(x, const(W3)), const(whole(4))))


def test_constant_that_enlarges_the_tensor_stays() -> None:
    weight = whole(1, 4, 3, 3)
    assert_stays(IMAGE, lambda b, x: multiply(conv2d(x, const(weight)), channels(SCALE)))


def test_bottlenecks_stay() -> None:
    down, up = whole(8, 2), whole(2, 8)
    assert_stays((3, 8), lambda b, x: matmul(matmul(x, const(down)), const(up)))
    narrow, wide = whole(2, 4, 1, 1), whole(8, 2, 3, 3)
    assert_stays(IMAGE, lambda b, x: conv2d(conv2d(x, const(narrow)), const(wide)))


def test_merge_that_saves_weights_but_costs_work_stays() -> None:
    """2x2 pixels in between, 4x4 behind: 20 * 4 + 36 * 16 multiply-adds against 45 * 16."""
    first, second = whole(4, 5, 1, 1), whole(1, 4, 3, 3)
    assert_stays(
        (1, 5, 2, 2), lambda b, x: conv2d(conv2d(x, const(first)), const(second), padding=2)
    )


def test_merge_that_saves_work_but_costs_weights_stays() -> None:
    first, second = whole(2, 4, 1, 1), whole(8, 2, 3, 3)
    assert_stays(
        (1, 4, 16, 16), lambda b, x: conv2d(conv2d(x, const(first)), const(second), strides=8)
    )


def test_subsampling_before_a_kernel_stays() -> None:
    first, second = whole(16, 4, 1, 1), whole(16, 16, 3, 3)
    assert_stays(
        (1, 4, 8, 8), lambda b, x: conv2d(conv2d(x, const(first), strides=2), const(second))
    )


def test_vectors_along_two_axes_stay_apart() -> None:
    across = const(whole(4))
    assert_stays((1, 4, 4, 4), lambda b, x: multiply(multiply(x, channels(SCALE_IN)), across))


def test_two_kernels_larger_than_one_stay() -> None:
    assert_stays((1, 4, 8, 8), lambda b, x: conv2d(conv2d(x, const(W3)), const(whole(2, 6, 3, 3))))


def test_different_groups_stay() -> None:
    first = const(whole(4, 1, 3, 3))
    assert_stays(IMAGE, lambda b, x: conv2d(conv2d(x, first, groups=4), const(whole(6, 4, 1, 1))))


def test_affine_operations_alone_stay() -> None:
    one = relax.const(1.0, "float32")
    assert_stays(IMAGE, lambda b, x: add(multiply(x, relax.const(3.0, "float32")), one))
    assert_stays(IMAGE, lambda b, x: conv2d(subtract(one, x), const(W3), **PADDED))


def test_batch_norm_in_training_stays() -> None:
    params = [const(whole(4, seed=seed)) for seed in range(3)] + [const(np.ones(4))]
    assert_stays(
        IMAGE, lambda b, x: relax.TupleGetItem(batch_norm(x, *params, axis=1, training=True), 0)
    )


def test_batch_norm_whose_mean_is_read_stays() -> None:
    def build(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        params = [const(whole(4, seed=seed)) for seed in range(3)] + [const(np.ones(4))]
        norm = b.emit(batch_norm(x, *params, axis=1, training=False))
        y, mean = b.emit(relax.TupleGetItem(norm, 0)), b.emit(relax.TupleGetItem(norm, 1))
        return add(y, relax.op.reshape(mean, (1, 4, 1, 1)))

    assert_stays(IMAGE, build)


def test_half_precision_stays() -> None:
    weight = relax.const(W3.astype("float16"))
    scale = relax.const(SCALE.reshape(1, 6, 1, 1).astype("float16"))
    mod = module_of(IMAGE, lambda b, x: multiply(conv2d(x, weight), scale), "float16")
    tvm.ir.assert_structural_equal(FoldLinearOps()(mod), mod)


def test_tensor_of_unknown_shape_stays() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(dtype="float32", ndim=4))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = multiply(conv2d(x, const(W3)), channels(SCALE))
            result = builder.emit_output(y)
        builder.emit_func_output(result)
    mod = builder.get()
    tvm.ir.assert_structural_equal(FoldLinearOps()(mod), mod)


def test_result_that_is_returned_is_not_folded_away() -> None:
    def build(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = b.emit(conv2d(x, const(W3)))
        return relax.Tuple([y, b.emit(multiply(y, channels(SCALE)))])

    assert_stays(IMAGE, build)
