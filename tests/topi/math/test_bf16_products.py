"""Numbers are rounded to bf16 as NumPy's extension does it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import tvm
from samples import run
from tvm import te

from tvm_neocpu.topi.math.bf16_products import rounded_bits


def test_rounding() -> None:
    """Ties to even, carries into the exponent and to infinity, subnormal numbers, zeros, NaN."""
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 4096, dtype="uint64").astype("uint32")
    upper = rng.integers(0, 1 << 16, 2048, dtype="uint64").astype("uint32") << np.uint32(16)
    ties = [upper | np.uint32(lower) for lower in (0x7FFF, 0x8000, 0x8001)]
    edges = np.array(
        [0, 1 << 31, 1, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FFFFFFF], "uint32"
    )
    values = np.concatenate([anything, *ties, edges]).view("float32")
    read = te.placeholder(values.shape, "float32", "x")
    bits = te.compute(values.shape, lambda i: rounded_bits(read(i)), name="bits")
    sch = tvm.s_tir.Schedule(te.create_prim_func([read, bits]))
    (loop,) = sch.get_loops(sch.get_sblock("bits"))
    sch.vectorize(sch.split(loop, [None, 8])[1])
    found = run(sch.mod["main"], [values], values.shape, "uint16").view(ml_dtypes.bfloat16)
    is_number = ~np.isnan(values)
    expected = np.where(is_number, values, 0).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(
        found[is_number].view("uint16"), expected[is_number].view("uint16")
    )
    assert np.isnan(found[~is_number].astype("float32")).all() and not is_number.all()
