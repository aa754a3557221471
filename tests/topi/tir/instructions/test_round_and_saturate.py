"""Requantisation in integer instructions: equal to its text for every kind of number."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi
from tvm_ffi import structural_equal

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.tir.instructions.round_and_saturate import round_and_saturate

TARGET = parse_target()
CPU = Cpu("haswell", AVX2, cores=1)
VALUES = np.array(
    [
        *(0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 127.5, -128.5, 0.49999997, -0.0, 0.0),
        *(1e4, 1.7e4, 3e9, -3e9, 1e38, -1e38, np.inf, -np.inf, 8388609.0, 250.5, 4.5, 127.4999),
        *np.linspace(-400, 400, 8).tolist(),
    ],
    "float32",
)


def quantize(x: te.Tensor, zero: float, dtype: str) -> te.Tensor:
    bounds = np.iinfo(dtype)
    rounded = topi.add(topi.round(x), zero) if zero else topi.round(x)
    return topi.cast(topi.clip(rounded, float(bounds.min), float(bounds.max)), dtype)


def quantizer(zero: float, dtype: str, rows: int = 1) -> tirx.PrimFunc:
    x = te.placeholder((rows, len(VALUES)), "float32", name="x")
    return te.create_prim_func([x, quantize(x, zero, dtype)])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 1, 3, 127, 128, 255, -128])
def test_equal_for_every_number(zero: int, dtype: str) -> None:
    func = schedule_function(quantizer(float(zero), dtype), TARGET.cpu)
    # A negative zero point would leave 16 bits.
    assert ("nearbyint" in str(func)) == (zero < 0)
    got = tvm.runtime.tensor(np.zeros((1, len(VALUES)), dtype))
    tvm.compile(func, target=TARGET.target)["main"](tvm.runtime.tensor(VALUES[None]), got)
    bounds = np.iinfo(dtype)
    expected = np.clip(np.rint(VALUES.astype("float64")) + zero, bounds.min, bounds.max)
    np.testing.assert_array_equal(got.numpy()[0], expected.astype(dtype))


@pytest.mark.parametrize(("low", "high"), [(-3.0, 252.0), (0.0, 252.0), (-3.0, 100.0)])
def test_what_is_rounded_behind_its_clip(low: float, high: float) -> None:
    """A ReLU's bounds are tighter than the codes'."""
    x = te.placeholder((1, len(VALUES)), "float32", name="x")

    def element(*at: tirx.Var) -> tirx.Expr:
        bounds = (tirx.const(bound, "float32") for bound in (low, high))
        return vector_math.nearest(vector_math.clip(x(*at), *bounds), 3).astype("uint8")

    func = schedule_function(te.create_prim_func([x, te.compute(x.shape, element)]), TARGET.cpu)
    assert "12582912" not in str(func)
    got = tvm.runtime.tensor(np.zeros((1, len(VALUES)), "uint8"))
    tvm.compile(func, target=TARGET.target)["main"](tvm.runtime.tensor(VALUES[None]), got)
    expected = np.rint(np.clip(VALUES.astype("float64"), low, high)) + 3
    np.testing.assert_array_equal(got.numpy()[0], expected.astype("uint8"))


INT32 = VALUES[np.abs(VALUES) < 2**31]


def clipper(low: int, high: int, zero: int, dtype: str) -> tirx.PrimFunc:
    """Numbers that fit 32 bits, rounded, clipped and moved by the zero point."""
    x = te.placeholder((1, len(INT32)), "float32", name="x")

    def element(*at: tirx.Var) -> tirx.Expr:
        return vector_math.whole_between(x(*at), low, high, zero).astype(dtype)

    return schedule_function(te.create_prim_func([x, te.compute(x.shape, element)]), TARGET.cpu)


def check_clipped(func: tirx.PrimFunc, low: int, high: int, zero: int, dtype: str) -> None:
    got = tvm.runtime.tensor(np.zeros((1, len(INT32)), dtype))
    tvm.compile(func, target=TARGET.target)["main"](tvm.runtime.tensor(INT32[None]), got)
    expected = np.clip(np.rint(INT32.astype("float64")), low, high).astype("int32") + zero
    np.testing.assert_array_equal(got.numpy()[0], expected.astype(dtype))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("low", "high", "zero"), [(0, 255, 0), (-3, 252, 3), (0, 100, 3), (-255, 0, 255), (-9, -2, 40)]
)
def test_what_fits_32_bits_is_clipped_behind_its_conversion(
    low: int, high: int, zero: int, dtype: str
) -> None:
    func = clipper(low, high, zero, dtype)
    assert "llvm.lrint" in str(func) and "T.round" not in str(func)
    narrows = any(name in str(func) for name in ("int16", "neocpu_uint8"))
    assert narrows == (dtype == "uint8")
    check_clipped(func, low, high, zero, dtype)


@pytest.mark.parametrize(
    ("low", "high", "zero", "dtype"),
    [(-5, 200, 0, "uint8"), (0, 255, 3, "uint8"), (-5, 200, 0, "int8"), (-100, 120, 20, "int8")],
)
def test_a_cast_of_what_bytes_do_not_hold_keeps_the_low_bits(
    low: int, high: int, zero: int, dtype: str
) -> None:
    check_clipped(clipper(low, high, zero, dtype), low, high, zero, dtype)


def test_such_a_conversion_needs_no_minimum() -> None:
    x = te.placeholder((64, 32), "float32", name="x")

    def element(*at: tirx.Var) -> tirx.Expr:
        return vector_math.whole_between(x(*at), -3, 252, 3).astype("uint8")

    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")
    func = schedule_function(te.create_prim_func([x, te.compute(x.shape, element)]), target.cpu)
    assembly = tvm.compile(func, target=target.target).mod.inspect_source("asm")
    assert "vpackuswb" in assembly and "vcvtps2dq" in assembly
    assert "vminps" not in assembly and "vpminsw" not in assembly


def test_what_is_bound_to_names_stays() -> None:
    """TVM cannot vectorise a call of it."""
    x = te.placeholder((64,), "float32", name="x")

    def element(at: tirx.Var) -> tirx.Expr:
        value = tirx.round(vector_math.silu(x(at)))
        bounds = (tirx.const(bound, "float32") for bound in (0, 255))
        return vector_math.clip(value, *bounds).astype("uint8")

    func = te.create_prim_func([x, te.compute(x.shape, element)])
    assert structural_equal(round_and_saturate(func, CPU), func)


def test_it_is_conversions_and_packs() -> None:
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")
    func = schedule_function(quantizer(3.0, "uint8", rows=64), target.cpu)
    assembly = tvm.compile(func, target=target.target).mod.inspect_source("asm")
    for wanted in ("vcvtps2dq", "vpackssdw", "vpackuswb"):
        assert wanted in assembly
    assert "vroundps" not in assembly


@pytest.mark.parametrize(
    "value",
    [
        # Not all that uint8 holds, another rounding, no rounding, a fraction behind it.
        lambda x: topi.cast(topi.clip(topi.round(x), 0.0, 254.0), "uint8"),
        lambda x: topi.cast(topi.clip(topi.floor(x), 0.0, 255.0), "uint8"),
        lambda x: topi.cast(topi.clip(x, 0.0, 255.0), "uint8"),
        lambda x: topi.cast(topi.clip(topi.add(topi.round(x), 0.5), 0.0, 255.0), "uint8"),
        lambda x: topi.cast(topi.clip(topi.round(x), 0.0, 255.0), "int32"),
    ],
)
def test_anything_else_stays(value) -> None:
    x = te.placeholder((8,), "float32", name="x")
    func = te.create_prim_func([x, value(x)])
    assert structural_equal(round_and_saturate(func, CPU), func)
