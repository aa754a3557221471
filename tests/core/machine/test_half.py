"""Types of half precision: their range and rounding are those of NumPy's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tvm_neocpu.core.machine.half import BF16, FP16, Half, halves_of, is_widened, widening_of
from tvm_neocpu.core.types import HALF_WEIGHTS

CASES = [(FP16, np.float16), (BF16, ml_dtypes.bfloat16)]


@pytest.mark.parametrize(("half", "kind"), CASES, ids=lambda case: str(case))
def test_range_and_rounding(half: Half, kind: type) -> None:
    info = ml_dtypes.finfo(kind)
    assert np.dtype(kind).name == half.dtype
    assert half.largest == float(info.max)
    assert half.rounding == float(info.eps) / 2
    values = np.random.default_rng(0).uniform(1, 2, 10000).astype("float32")
    lost = np.abs(values.astype(kind).astype("float32") / values - 1)
    assert half.rounding * 0.9 < lost.max() <= half.rounding


def test_every_type_of_weights_is_known() -> None:
    assert {types.weight for types in HALF_WEIGHTS} == {FP16.dtype, BF16.dtype}


def test_which_cpu_widens_what() -> None:
    assert halves_of(frozenset({"sse2"})) == ()
    assert halves_of(frozenset({"sse2", "avx", "f16c"})) == ("float16",)
    assert halves_of(frozenset({"avx2", "f16c"})) == ("float16", "bfloat16")
    assert halves_of(frozenset({"neon"})) == ("float16", "bfloat16")
    assert is_widened("float32", ()) and not is_widened("float16", ())


def test_other_types_cost_nothing() -> None:
    assert widening_of("float32") == widening_of("int8") == 0 < widening_of("float16")
