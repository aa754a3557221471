"""Layer normalisation over the last axis in stages of one row; other axes by TVM."""

from __future__ import annotations

import numpy as np
import pytest
from one_module import Case, scheduled_results, script_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.targets import parse_target

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
EPSILON = 1e-3


def normalised(shape: tuple[int, ...], axes: list[int]) -> tuple[Case, np.ndarray]:
    """The case, and its scale; the bias is one more than the scale."""
    inner = [shape[axis] for axis in axes]
    scale = np.linspace(-1, 2, int(np.prod(inner)), dtype="float32").reshape(inner)
    constants = [relax.const(value) for value in (scale, scale + 1)]

    def build(x: relax.Expr) -> relax.Expr:
        return relax.op.nn.layer_norm(x, *constants, axes, EPSILON)

    return (shape, "float32", build), scale


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4, 75), [-1]),
        ((2, 7, 768), [2]),
        ((3, 5), [-1]),
        ((2, 3, 4, 33), [-1]),
        ((2, 5, 6), [1, 2]),
    ],
)
def test_rows_have_the_scale_and_the_bias(shape: tuple[int, ...], axes: list[int]) -> None:
    case, scale = normalised(shape, axes)
    x = np.random.default_rng(3).standard_normal(shape).astype("float32") + 5
    (got,) = scheduled_results([case], [x], parse_target())
    wide = x.astype("float64")
    over = tuple(axes)
    centred = wide - wide.mean(over, keepdims=True)
    deviation = np.sqrt((centred**2).mean(over, keepdims=True) + EPSILON)
    np.testing.assert_allclose(got, centred / deviation * scale + scale + 1, rtol=1e-4, atol=1e-5)


def test_the_stages_of_a_row_share_one_loop() -> None:
    case, _ = normalised((1, 196, 768), [-1])
    text = script_of(case, SKYLAKE)
    assert text.count("T.parallel(") == 1
