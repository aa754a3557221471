"""Numbers are rounded to bf16 as NumPy's extension does it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tvm
from samples import HOST, run
from tvm import te

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.math.bf16_products import rounded_bits
from tvm_neocpu.topi.tir.instructions.plant_bf16 import plant_bf16


def numbers() -> npt.NDArray[np.float32]:
    """Ties, carries into the exponent and to infinity, subnormal numbers, zeros, NaN."""
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 4096, dtype="uint64").astype("uint32")
    upper = rng.integers(0, 1 << 16, 2048, dtype="uint64").astype("uint32") << np.uint32(16)
    ties = [upper | np.uint32(lower) for lower in (0x7FFF, 0x8000, 0x8001)]
    edges = np.array(
        [0, 1 << 31, 1, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FFFFFFF], "uint32"
    )
    return np.concatenate([anything, *ties, edges]).view("float32")


def rounded_here(values: npt.NDArray[np.float32], cpu: Cpu | None) -> npt.NDArray[np.uint16]:
    """The bits that a loop of vectors makes of them, by an instruction where a CPU is given."""
    read = te.placeholder(values.shape, "float32", "x")
    bits = te.compute(values.shape, lambda i: rounded_bits(read(i)), name="bits")
    sch = tvm.s_tir.Schedule(te.create_prim_func([read, bits]))
    (loop,) = sch.get_loops(sch.get_sblock("bits"))
    sch.vectorize(sch.split(loop, [None, 8])[1])
    func = plant_bf16(sch.mod["main"], cpu) if cpu else sch.mod["main"]
    return run(func, [values], values.shape, "uint16")


def test_rounding() -> None:
    values = numbers()
    found = rounded_here(values, None).view(ml_dtypes.bfloat16)
    is_number = ~np.isnan(values)
    expected = np.where(is_number, values, 0).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(
        found[is_number].view("uint16"), expected[is_number].view("uint16")
    )
    assert np.isnan(found[~is_number].astype("float32")).all() and not is_number.all()


@pytest.mark.skipif("avx512bf16" not in HOST.features, reason="this CPU has no AVX512_BF16")
def test_the_conversion_here() -> None:
    """Like the arithmetic, but that it takes subnormal numbers for zeros, as vdpbf16ps does."""
    values = numbers()
    plain, found = rounded_here(values, None), rounded_here(values, HOST.cpu)
    is_nan = np.isnan(values)
    assert np.isnan(found[is_nan].view(ml_dtypes.bfloat16).astype("float32")).all()
    is_tiny = np.abs(values) < np.finfo("float32").tiny
    assert is_tiny.any() and not (found[is_tiny] & 0x7FFF).any()
    usual = ~is_nan & ~is_tiny
    np.testing.assert_array_equal(found[usual], plain[usual])
