"""Elementwise operators that TVM's importer or code generation lacks, or computes differently."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper
from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node

FLOATS = ("float16", "float32", "float64")
_LEAST = np.iinfo("int32").min
_CUBE = 3
_SMALL_INTEGERS = ("int8", "int16", "uint8", "uint16")


def power(node: Node) -> relax.Expr:
    """``x ** y`` in the type of ``x``, whatever the type of ``y``.

    Powers of integers with fractional exponents are computed in float64, with whole ones exactly.
    Cubes, which GELU by tanh has, are two products, as in ONNX Runtime; TVM calls ``powf``.
    """
    base, exponent = node.data, node.required(1)
    kind = str(exponent.ty.dtype)
    if node.dtype in FLOATS:
        is_cube = _is_cube(node)
        if kind == node.dtype and not is_cube:
            return node.by_tvm()
        wide = "float64" if node.dtype == "float64" else "float32"
        x = as_type(node, base, wide)
        if is_cube:
            result = whole_power(node, x, _CUBE)
        else:
            result = node.emit(relax.op.power(x, as_type(node, exponent, wide)))
        return as_type(node, result, node.dtype)
    if kind in FLOATS:
        x = as_type(node, base, "float64")
        return as_type(
            node, node.emit(relax.op.power(x, as_type(node, exponent, "float64"))), node.dtype
        )
    return _power_of_integers(node, base, exponent)


def _is_cube(node: Node) -> bool:
    """Whether the exponent is known to be 3, and its shape adds no axes to the base."""
    exponent = node.known(1)
    if exponent is None or exponent.size != 1 or exponent.ndim > node.data.ty.ndim:
        return False
    return bool(exponent.item() == _CUBE)


def whole_power(node: Node, base: relax.Expr, exponent: int) -> relax.Expr:
    """By products, a step for each bit: C's ``pow`` takes many times as long."""
    power = base
    for bit in f"{exponent:b}"[1:]:
        power = node.emit(relax.op.multiply(power, power))
        power = node.emit(relax.op.multiply(power, base)) if bit == "1" else power
    return power


def _power_of_integers(node: Node, base: relax.Expr, exponent: relax.Expr) -> relax.Expr:
    """Powers of integers by squaring, a step for each bit of an exponent below 64.

    A negative exponent gives 0, but for the bases 1 and -1.
    """
    wide = "uint64" if node.dtype == "uint64" else "int64"
    base, rest = as_type(node, base, wide), as_type(node, exponent, "int64")
    one, zero = relax.const(1, wide), relax.const(0, wide)
    is_negative = node.emit(relax.op.less(rest, relax.const(0, "int64")))
    result: relax.Expr = one
    square = base
    for _ in range(6):
        factor = node.emit(relax.op.where(_is_odd(node, rest), square, one))
        result = node.emit(relax.op.multiply(result, factor))
        square = node.emit(relax.op.multiply(square, square))
        rest = node.emit(relax.op.right_shift(rest, relax.const(1, "int64")))
    inverse = node.emit(relax.op.where(node.emit(relax.op.equal(base, one)), one, zero))
    if wide == "int64":
        minus = relax.const(-1, wide)
        is_odd = _is_odd(node, as_type(node, exponent, "int64"))
        sign_of = node.emit(relax.op.where(is_odd, minus, one))
        is_minus = node.emit(relax.op.equal(base, minus))
        inverse = node.emit(relax.op.where(is_minus, sign_of, inverse))
    return as_type(node, node.emit(relax.op.where(is_negative, inverse, result)), node.dtype)


def _is_odd(node: Node, value: relax.Expr) -> relax.Var:
    one = relax.const(1, "int64")
    return node.emit(relax.op.equal(node.emit(relax.op.bitwise_and(value, one)), one))


def bit_shift(node: Node) -> relax.Expr:
    """A shift by the width of the type or more, or by a negative number, gives 0 or the sign."""
    x, y, dtype = node.data, node.required(1), node.dtype
    zero, width = relax.const(0, dtype), relax.const(np.iinfo(dtype).bits, dtype)
    fits, beyond = node.emit(relax.op.less(y, width)), zero
    is_left = node.attributes["direction"] == "LEFT"
    if dtype.startswith("int"):
        is_positive = node.emit(relax.op.greater_equal(y, zero))
        fits = node.emit(relax.op.logical_and(fits, is_positive))
        if not is_left:
            is_negative = node.emit(relax.op.less(x, zero))
            beyond = node.emit(relax.op.where(is_negative, relax.const(-1, dtype), zero))
    by = node.emit(relax.op.where(fits, y, zero))
    shifted = relax.op.left_shift(x, by) if is_left else relax.op.right_shift(x, by)
    return relax.op.where(fits, node.emit(shifted), beyond)


def is_inf(node: Node) -> relax.Expr:
    """Infinities of the signs that ``detect_positive`` and ``detect_negative`` name."""
    positive, negative = (
        bool(node.attributes[name]) for name in ("detect_positive", "detect_negative")
    )
    wide = "float64" if node.dtype == "float64" else "float32"
    data = as_type(node, node.data, wide)
    if positive and negative:
        return relax.op.isinf(data)
    if not positive and not negative:
        return relax.op.less(data, data)  # nowhere
    infinity = relax.const(np.array(math.inf if positive else -math.inf, wide), wide)
    return relax.op.equal(data, infinity)


def sign(node: Node) -> relax.Expr:
    """-1, 0 or 1; NaN stays."""
    if node.dtype in FLOATS:
        is_nan = node.emit(relax.op.isnan(node.data))
        return relax.op.where(is_nan, node.data, node.emit(node.by_tvm()))
    if not node.dtype.startswith("uint"):
        return node.by_tvm()
    one = relax.const(1, node.dtype)
    return relax.op.minimum(node.data, one)


def comparison(node: Node) -> relax.Expr:
    """Equal, GreaterOrEqual and LessOrEqual where TVM's comparison would be wrong, or is none.

    LLVM cannot compare booleans as TVM writes it. Of an int32 and -2^31 TVM's simplifier takes the
    difference, which overflows.
    """
    is_tensor = isinstance(node.data.ty, relax.TensorType)
    if is_tensor and node.dtype == "bool":
        return node.tvm_conversion(_both_as(node, "uint8"))
    if is_tensor and node.dtype == "int32":
        values = (node.known(0), node.known(1))
        if any(known is not None and np.any(known == _LEAST) for known in values):
            return node.tvm_conversion(_both_as(node, "int64"))
    return node.by_tvm()


def negation(node: Node) -> relax.Expr:
    """True where the data are false, by their bits.

    TVM turns "not a > b" into "a <= b", which is another thing where one is NaN.
    """

    def compute(data: te.Tensor) -> te.Tensor:
        one = tirx.const(1, "uint8")
        return te.compute(
            data.shape,
            lambda *at: (data(*at).astype("uint8") ^ one).astype("bool"),
            name="negation",
        )

    return node.builder.emit_te(compute, node.data, primfunc_name_hint="negation")


def _both_as(node: Node, dtype: str) -> list[relax.Expr | None]:
    return [as_type(node, node.required(place), dtype) for place in (0, 1)]


def bit_cast(node: Node) -> relax.Expr:
    """The same bits as another type of the same width."""
    target = str(helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    if np.dtype(target).itemsize != np.dtype(node.dtype).itemsize:
        raise UnsupportedOperatorError(f"{node.dtype} and {target} differ in width")
    if target == node.dtype:
        return node.data
    if "bool" in (target, node.dtype):
        return relax.op.astype(node.data, target)

    def compute(data: te.Tensor) -> te.Tensor:
        return te.compute(
            data.shape, lambda *at: tirx.reinterpret(target, data(*at)), name="bit_cast"
        )

    return node.builder.emit_te(compute, node.data, primfunc_name_hint="bit_cast")


def cast(node: Node) -> relax.Expr:
    """To bytes and 16-bit integers floats go by way of int32, whose upper bits are dropped.

    What int32 cannot hold, NaN and infinities are 0. TVM's importer has an operation for each step,
    which made a second pass over the tensor.
    """
    target = str(helper.tensor_dtype_to_np_dtype(node.attributes["to"]))
    is_tensor = isinstance(node.data, relax.Expr) and isinstance(node.data.ty, relax.TensorType)
    if target not in _SMALL_INTEGERS or not is_tensor or node.known(0) is not None:
        return node.by_tvm()
    if node.dtype not in FLOATS:
        return node.by_tvm()

    kind = "float64" if node.dtype == "float64" else "float32"

    def whole(value: tirx.Expr) -> tirx.Expr:
        wide = value.astype(kind)
        held = tirx.abs(wide) < tirx.const(2.0**31, kind)
        return tirx.Select(held, wide, tirx.const(0, kind)).astype("int32").astype(target)

    def compute(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *at: whole(data(*at)), name="cast")

    return node.builder.emit_te(compute, node.data, primfunc_name_hint="cast")


def as_type(node: Node, value: relax.Expr, dtype: str) -> relax.Expr:
    if str(value.ty.dtype) == dtype:
        return value
    return node.emit(relax.op.astype(value, dtype))
