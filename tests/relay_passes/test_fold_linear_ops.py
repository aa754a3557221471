"""FoldLinearOps: Before -> Expected, what must never be folded, equal numbers on random chains."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.op import add, divide, matmul, multiply, negative, subtract
from tvm.relax.op.nn import batch_norm, conv2d, conv2d_transpose, relu

from tvm_neocpu.relay_passes.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.constants import array_of
from tvm_neocpu.relay_passes.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.fold_linear_ops import FoldLinearOps

Build = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]

LIGHT_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def module(shape: tuple[int, ...], build: Build, dtype: str = "float32") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def whole(*shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers without zero: products and sums of them are exact in fp32."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 5, shape) * rng.choice([-1, 1], shape)).astype("float32")


def const(array: np.ndarray) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array, "float32"))


def channels(vector: np.ndarray) -> relax.Expr:
    return const(vector.reshape(1, -1, 1, 1))


def normalized(x: relax.Expr, gamma: np.ndarray, beta: np.ndarray, axis: int = 1) -> relax.Expr:
    """A batch norm with mean 2 and variance 4: ``gamma / 2 * (x - 2) + beta``."""
    mean, variance = np.full_like(gamma, 2), np.full_like(gamma, 4)
    params = map(const, (gamma, beta, mean, variance))
    return relax.TupleGetItem(batch_norm(x, *params, axis=axis, epsilon=0.0, training=False), 0)


def assert_folds(shape: tuple[int, ...], before: Build, expected: Build) -> None:
    mod = module(shape, before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(FoldLinearOps()(mod), module(shape, expected))
    assert mod.script() == fingerprint, "the pass changed its argument"


def assert_stays(shape: tuple[int, ...], build: Build) -> None:
    assert_folds(shape, build, build)


IMAGE = (1, 4, 6, 6)
W3, W1 = whole(6, 4, 3, 3), whole(6, 4, 1, 1)
GAMMA, BETA = 2 * whole(6, seed=1), whole(6, seed=2)
SCALE, SHIFT = whole(6, seed=3), whole(6, seed=4)
SCALE_IN, SHIFT_IN = whole(4, seed=5), whole(4, seed=6)
PADDED = {"padding": 1}


def rows(vector: np.ndarray) -> np.ndarray:
    """A factor by output channel, against an OIHW weight."""
    return vector.reshape(-1, 1, 1, 1)


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


def test_scalar_steps_become_a_bias_vector() -> None:
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


# --- never ---------------------------------------------------------------------------------------


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


def test_affine_steps_alone_stay() -> None:
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
    mod = module(IMAGE, lambda b, x: multiply(conv2d(x, weight), scale), "float16")
    tvm.ir.assert_structural_equal(FoldLinearOps()(mod), mod)


def test_result_that_is_returned_is_not_folded_away() -> None:
    def build(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = b.emit(conv2d(x, const(W3)))
        return relax.Tuple([y, b.emit(multiply(y, channels(SCALE)))])

    assert_stays(IMAGE, build)


# --- numbers -------------------------------------------------------------------------------------


def evaluate(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    """Run ``main`` in double precision."""
    function = mod["main"]
    known = {function.params[0]: x.astype("float64")}

    def value_of(expr: relax.Expr) -> np.ndarray:
        if isinstance(expr, relax.Var):
            return known[expr]
        if isinstance(expr, relax.TupleGetItem):
            return value_of(expr.tuple_value)
        array = array_of(expr)
        return array if array is not None else OPS[expr.op.name](expr, *map(value_of, expr.args))

    for block in function.body.blocks:
        for binding in block.bindings:
            known[binding.var] = value_of(binding.value)
    return value_of(function.body.body)


def _conv2d(call: tvm.ir.Call, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    attrs = call.attrs
    top, left, bottom, right = map(int, attrs.padding)
    (sy, sx), (dy, dx) = map(int, attrs.strides), map(int, attrs.dilation)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = (dy * (weight.shape[2] - 1) + 1, dx * (weight.shape[3] - 1) + 1)
    taps = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))[:, :, ::sy, ::sx, ::dy, ::dx]
    groups = int(attrs.groups)
    taps = taps.reshape(len(x), groups, -1, *taps.shape[2:])
    weight = weight.reshape(groups, -1, *weight.shape[1:])
    y = np.einsum("ngihwkl,goikl->ngohw", taps, weight)
    return y.reshape(len(x), -1, *y.shape[3:])


def _conv2d_transpose(call: tvm.ir.Call, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    attrs = call.attrs
    groups, stride = int(attrs.groups), int(attrs.strides[0])
    top, left, bottom, right = map(int, attrs.padding)
    _, _, height, width = x.shape
    _, outputs, kh, kw = weight.shape
    full = np.zeros(
        (len(x), groups, outputs, (height - 1) * stride + kh, (width - 1) * stride + kw)
    )
    x = x.reshape(len(x), groups, -1, height, width)
    weight = weight.reshape(groups, -1, outputs, kh, kw)
    for i, j in np.ndindex(height, width):
        spot = np.einsum("ngi,giokl->ngokl", x[..., i, j], weight)
        full[..., i * stride : i * stride + kh, j * stride : j * stride + kw] += spot
    full = full.reshape(len(x), groups * outputs, *full.shape[3:])
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


def _batch_norm(
    call: tvm.ir.Call,
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    shape = [-1 if axis == int(call.attrs.axis) else 1 for axis in range(x.ndim)]
    gamma, beta, mean, variance = (v.reshape(shape) for v in (gamma, beta, mean, variance))
    return gamma * (x - mean) / np.sqrt(variance + float(call.attrs.epsilon)) + beta


OPS = {
    "relax.add": lambda call, x, y: x + y,
    "relax.divide": lambda call, x, y: x / y,
    "relax.matmul": lambda call, x, y: x @ y,
    "relax.multiply": lambda call, x, y: x * y,
    "relax.negative": lambda call, x: -x,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.conv2d": _conv2d,
    "relax.nn.conv2d_transpose": _conv2d_transpose,
    "relax.nn.relu": lambda call, x: np.maximum(x, 0),
    "relax.subtract": lambda call, x, y: x - y,
}


def random_affine(draw: st.DrawFn, x: relax.Expr, rng: np.random.Generator) -> relax.Expr:
    """One elementwise linear operation, with a scalar or a vector over the channels."""
    size = x.ty.shape[1]
    tail = (1,) * (x.ty.ndim - 2)
    vector = (rng.uniform(0.5, 2, int(size)) * rng.choice([-1, 1], int(size))).astype("float32")
    operand = draw(
        st.sampled_from([vector[0], vector.reshape(-1, *tail), vector.reshape(1, -1, *tail)])
    )
    constant = relax.const(operand, "float32")
    kind = draw(st.sampled_from(["norm", "add", "mul", "sub", "rsub", "div", "neg"]))
    if kind == "norm":
        params = [const(vector), const(vector[::-1]), const(vector / 2), const(vector**2)]
        return relax.TupleGetItem(batch_norm(x, *params, axis=1, training=False), 0)
    return {
        "add": lambda: add(x, constant),
        "mul": lambda: multiply(constant, x),
        "sub": lambda: subtract(x, constant),
        "rsub": lambda: subtract(constant, x),
        "div": lambda: divide(x, constant),
        "neg": lambda: negative(x),
    }[kind]()


def random_conv(draw: st.DrawFn, x: relax.Expr, rng: np.random.Generator) -> relax.Expr:
    inputs, height = int(x.ty.shape[1]), int(x.ty.shape[2])
    groups = draw(st.sampled_from([g for g in (1, 2, inputs) if inputs % g == 0]))
    outputs = groups * draw(st.integers(1, 3))
    kernel = draw(st.sampled_from([k for k in (1, 1, 2, 3) if k <= height]))
    window = {"strides": draw(st.sampled_from([1, 2])), "groups": groups}
    padding = draw(st.integers(0, kernel - 1))
    if draw(st.integers(0, 4)) == 0 and height < 8:
        weight = const(rng.normal(size=(inputs, outputs // groups, kernel, kernel)))
        return conv2d_transpose(x, weight, padding=padding // 2, **window)
    weight = const(rng.normal(size=(outputs, inputs // groups, kernel, kernel)))
    return conv2d(x, weight, padding=(padding, 0, padding, padding), **window)


def random_dense(draw: st.DrawFn, x: relax.Expr, rng: np.random.Generator) -> relax.Expr:
    return matmul(x, const(rng.normal(size=(int(x.ty.shape[1]), draw(st.integers(1, 6))))))


@st.composite
def chains(draw: st.DrawFn) -> tvm.IRModule:
    """Up to eight linear operations in a row, now and then a ReLU or a second reader."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    is_image = draw(st.booleans())
    kinds = draw(st.lists(st.sampled_from("llaaar2"), min_size=1, max_size=8))

    def build(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        for kind in kinds:
            if kind == "l":
                x = b.emit((random_conv if is_image else random_dense)(draw, x, rng))
            elif kind == "a":
                x = b.emit(random_affine(draw, x, rng))
            elif kind == "r":
                x = b.emit(relu(x))
            else:
                x = b.emit(add(x, b.emit(random_affine(draw, x, rng))))
        return x

    return module((2, 4, 7, 7) if is_image else (2, 4), build)


def count(mod: tvm.IRModule) -> Counter[str]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return Counter(v.op.name for v in values if isinstance(v, tvm.ir.Call))


@settings(max_examples=150, deadline=None)
@given(chains())
def test_random_chains_compute_the_same(mod: tvm.IRModule) -> None:
    folded = FoldLinearOps()(mod)
    relax.analysis.well_formed(folded)
    shape = [int(size) for size in mod["main"].params[0].ty.shape]
    x = np.random.default_rng(0).normal(size=shape)
    want = evaluate(mod, x)
    np.testing.assert_allclose(
        evaluate(folded, x), want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max())
    )
    before, after = count(mod), count(folded)
    assert "relax.nn.batch_norm" not in after
    for name in ("relax.nn.conv2d", "relax.nn.conv2d_transpose", "relax.matmul"):
        assert after[name] <= before[name]
    assert after.total() <= before.total() + before["relax.nn.batch_norm"]


@settings(max_examples=8, deadline=None)
@given(chains())
def test_random_chains_still_compile(mod: tvm.IRModule) -> None:
    shape = [int(size) for size in mod["main"].params[0].ty.shape]
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    target = tvm.target.Target({"kind": "llvm"})
    executable = tvm.compile(FoldLinearOps()(mod), target=target)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    got, want = machine["main"](tvm.runtime.tensor(x)).numpy(), evaluate(mod, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1, np.abs(want).max()))


# --- whole networks ------------------------------------------------------------------------------


def fold_light(name: str) -> tuple[Counter[str], Counter[str]]:
    mod = from_onnx(onnx.load(LIGHT_MODELS / f"light_{name}.onnx"))
    folded = FoldLinearOps()(Canonicalize()(FoldConstants()(mod)))
    relax.analysis.well_formed(folded)
    result = count(mod), count(folded)
    del mod, folded
    gc.collect()  # VGG-19 holds 575 MB
    return result


@pytest.mark.parametrize(
    "name",
    [
        "bvlc_alexnet",
        "densenet121",
        "inception_v1",
        "inception_v2",
        "resnet50",
        "shufflenet",
        "squeezenet",
        "vgg19",
        "zfnet512",
    ],
)
def test_no_batch_norm_is_left_in_a_network(name: str) -> None:
    before, after = fold_light(name)
    assert after["relax.nn.batch_norm"] == 0
    assert after["relax.nn.conv2d"] == before["relax.nn.conv2d"]
    assert after["relax.matmul"] == before["relax.matmul"]
    assert after["relax.multiply"] <= before["relax.multiply"]


def test_what_is_left_of_resnet50() -> None:
    """53 convolutions with a bias each, 16 residual additions, one dense layer with bias."""
    assert fold_light("resnet50")[1] == {
        "relax.nn.conv2d": 53,
        "relax.add": 53 + 16 + 1,
        "relax.nn.relu": 49,
        "relax.nn.max_pool2d": 1,
        "relax.nn.avg_pool2d": 1,
        "relax.reshape": 1,
        "relax.matmul": 1,
        "relax.nn.softmax": 1,
    }


def test_what_is_left_of_densenet121() -> None:
    """59 of 121 batch norms follow a convolution; the other 62 follow a concat or a pooling."""
    assert fold_light("densenet121")[1] == {
        "relax.nn.conv2d": 121,
        "relax.multiply": 62,
        "relax.add": 59 + 62 + 1,
        "relax.nn.relu": 121,
        "relax.concat": 58,
        "relax.nn.max_pool2d": 1,
        "relax.nn.avg_pool2d": 3,
        "relax.mean": 1,
    }
