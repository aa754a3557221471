"""IntegerOperators, Before -> Expected; tests/networks/test_quantized_networks.py has numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from coded_tensors import code, const, real
from numpy.typing import ArrayLike
from one_function import Build, module_of
from tvm import relax
from tvm.relax.op import add, astype, clip, concat, matmul, maximum, multiply, permute_dims
from tvm.relax.op.nn import conv2d, max_pool2d, pad, relu

from tvm_neocpu.relay_passes.operators.new.quantize import nearest, whole_between
from tvm_neocpu.relay_passes.quantized.integer_operators import IntegerOperators, is_quantized

WEIGHT = (np.arange(4 * 2 * 3 * 3).reshape(4, 2, 3, 3) % 11 - 5).astype("int8")
SUMS = WEIGHT.astype("int32").sum(axis=(1, 2, 3)).reshape(4, 1, 1)
IMAGE = (1, 2, 5, 5)


def assert_becomes(before: Build, expected: Build, dtype: str = "uint8", shape=IMAGE) -> None:
    mod = module_of(shape, before, dtype)
    fingerprint = mod.script()
    found = IntegerOperators()(mod)
    tvm.ir.assert_structural_equal(found, module_of(shape, expected, dtype))
    assert not is_quantized(found)
    assert mod.script() == fingerprint, "the pass changed its argument"


def weight(scale: ArrayLike = 0.5) -> relax.Expr:
    values = np.asarray(scale, "float32")
    return real(const(WEIGHT, "int8"), values, np.zeros(values.shape), "int8")


def test_a_convolution_its_bias_and_relu_round_once() -> None:
    bias = np.array([3, -4, 5, -6])

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        made = b.emit(conv2d(b.emit(real(x, 0.25, 0)), b.emit(weight())))
        offset = b.emit(real(const(bias.reshape(1, 4, 1, 1), "int32"), 0.125, 0, "int32"))
        return code(b.emit(relu(b.emit(add(made, offset)))), 2.0, 0)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        acc = b.emit(conv2d(x, const(WEIGHT, "int8"), out_dtype="int32"))
        acc = b.emit(add(acc, const(bias.reshape(4, 1, 1), "int32")))
        y = b.emit(multiply(b.emit(astype(acc, "float32")), const(0.0625)))
        return astype(b.emit(whole_between(y, 0, 255, 0)), "uint8")

    assert_becomes(before, expected)


def test_a_zero_point_pads_and_joins_the_bias_and_channels_have_their_scales() -> None:
    scales = [0.5, 1, 2, 4]

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        made = conv2d(b.emit(real(x, 0.25, 7)), b.emit(weight(scales)), padding=[1, 0, 2, 1])
        return code(b.emit(made), 2.0, 10)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        x = b.emit(pad(x, [0, 0, 0, 0, 1, 2, 0, 1], "constant", 7))
        acc = b.emit(conv2d(x, const(WEIGHT, "int8"), out_dtype="int32"))
        acc = b.emit(add(acc, const(-7 * SUMS, "int32")))
        factors = np.reshape(scales, (4, 1, 1)) / 8
        y = b.emit(multiply(b.emit(astype(acc, "float32")), const(factors)))
        return astype(b.emit(whole_between(y, -10, 245, 10)), "uint8")

    assert_becomes(before, expected)


@pytest.mark.parametrize(("zero", "stored"), [(125, "int8"), (0, "int16")])
def test_uint8_weights_are_differences(zero: int, stored: str) -> None:
    integers = (np.arange(6).reshape(2, 3) * 50).astype("uint8")

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        matrix = b.emit(real(const(integers, "uint8"), 0.5, zero))
        turned = b.emit(permute_dims(matrix))
        return matmul(b.emit(real(x, 1.0, 0)), turned)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        matrix = const(integers.astype("int32").T - zero, stored)
        acc = b.emit(matmul(x, matrix, out_dtype="int32"))
        return multiply(b.emit(astype(acc, "float32")), const(0.5))

    assert_becomes(before, expected, shape=(4, 3))


def test_moves_work_on_codes_and_what_is_coded_alike_cancels() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        pooled = b.emit(max_pool2d(b.emit(real(x, 0.5, 3)), [2, 2]))
        again = b.emit(real(b.emit(code(pooled, 0.5, 3)), 0.5, 3))
        return code(b.emit(permute_dims(again, [0, 2, 3, 1])), 0.5, 3)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return permute_dims(b.emit(max_pool2d(x, [2, 2])), [0, 2, 3, 1])

    assert_becomes(before, expected)


def test_relu_of_codes_is_a_maximum_of_codes() -> None:
    assert_becomes(
        lambda b, x: code(b.emit(relu(b.emit(real(x, 0.5, 3)))), 0.5, 3),
        lambda b, x: maximum(x, const(3, "uint8")),
    )


def test_concat_rescales_what_is_coded_otherwise() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        both = [b.emit(real(x, 0.5, 3)), b.emit(real(x, 0.25, 0))]
        return code(b.emit(concat(both, axis=1)), 0.5, 3)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(multiply(b.emit(astype(x, "float32")), const(0.5)))
        y = b.emit(astype(b.emit(whole_between(y, -3, 252, 3)), "uint8"))
        return concat([x, y], axis=1)

    assert_becomes(before, expected)


def test_int8_is_shifted_where_it_comes_and_goes() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return code(b.emit(max_pool2d(b.emit(real(x, 0.5, -3, "int8")), [2, 2])), 0.5, -3, "int8")

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        wide = b.emit(add(b.emit(astype(x, "int16")), const(128, "int16")))
        pooled = b.emit(max_pool2d(b.emit(astype(wide, "uint8")), [2, 2]))
        wide = b.emit(add(b.emit(astype(pooled, "int16")), const(-128, "int16")))
        return astype(wide, "int8")

    assert_becomes(before, expected, "int8")


def test_a_sum_of_two_costs_a_product_each_and_one_rounding() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        total = b.emit(add(b.emit(real(x, 0.5, 4)), b.emit(real(x, 0.25, 0))))
        return code(b.emit(relu(total)), 0.5, 0)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        left = b.emit(astype(x, "float32"))
        right = b.emit(multiply(b.emit(astype(x, "float32")), const(0.5)))
        y = b.emit(add(b.emit(add(left, right)), const(-4.0)))
        return astype(b.emit(whole_between(y, 0, 255, 0)), "uint8")

    assert_becomes(before, expected)


def test_what_may_not_fit_32_bits_is_clipped_in_floats() -> None:
    """An output's scale may be so small that codes leave int32."""

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        made = conv2d(b.emit(real(x, 1.0, 0)), b.emit(weight(1.0)))
        return code(b.emit(made), 0.5, 10)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        acc = b.emit(conv2d(x, const(WEIGHT, "int8"), out_dtype="int32"))
        y = b.emit(multiply(b.emit(astype(acc, "float32")), const(2.0)))
        return astype(b.emit(nearest(b.emit(clip(y, -10.0, 245.0)), 10)), "uint8")

    assert_becomes(before, expected)


def test_a_constant_in_floats_is_quantised_while_compiling() -> None:
    values = WEIGHT.astype("float32") / 4

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        coded = b.emit(code(const(values), 0.25, 0, "int8"))
        return conv2d(b.emit(real(x, 1.0, 0)), b.emit(real(coded, 0.25, 0, "int8")))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        acc = b.emit(conv2d(x, const(WEIGHT, "int8"), out_dtype="int32"))
        return multiply(b.emit(astype(acc, "float32")), const(0.25))

    assert_becomes(before, expected)


def test_what_the_file_leaves_in_floats_stays_so() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return conv2d(x, b.emit(weight()))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return conv2d(x, const(WEIGHT * 0.5))

    assert_becomes(before, expected, "float32")
