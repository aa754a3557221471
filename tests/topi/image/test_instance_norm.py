"""Instance normalisation of NCHW[x]c, in planes that feed the cores and operation by operation."""

from __future__ import annotations

import numpy as np
import pytest
from one_module import Case, fused_module, scheduled_results, script_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.relay_passes.layouts.moments import SPATIAL_AXES
from tvm_neocpu.targets import parse_target

EPSILON = 1e-2


def norm(shape: tuple[int, ...]) -> Case:
    """Without scale and bias, as layout rules leave it."""
    same = [relax.const(np.full(shape[1], value, "float32")) for value in (1, 0)]
    axes = list(SPATIAL_AXES)
    return shape, "float32", lambda x: relax.op.nn.instance_norm(x, *same, 1, axes, EPSILON)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "shape",
    [(1, 2, 12, 13, 16), (2, 3, 1, 7, 8), (1, 1, 5, 1, 24), (1, 4, 33, 30, 64), (1, 5, 9, 9, 3)],
)
def test_every_block_and_image(shape: tuple[int, ...], cores: int) -> None:
    """A large mean costs no digits."""
    x = np.random.default_rng(0).normal(100, 1, shape).astype("float32")
    target = parse_target(f"llvm -num-cores={cores}")
    (found,) = scheduled_results([norm(shape)], [x], target)
    exact = x.astype("float64")
    mean, variance = (of((2, 3), keepdims=True) for of in (exact.mean, exact.var))
    wanted = (exact - mean) / np.sqrt(variance + EPSILON)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-4)


def test_planes_are_chunks_where_they_feed_the_cores() -> None:
    """Two planes keep two cores busy; one does not."""
    several, single = ([norm((1, blocks, 56, 56, 32))] for blocks in (2, 1))
    assert len(fused_module(several, cores=2).functions) == 2, "a function beside main"
    assert len(fused_module(single, cores=2).functions) > 2
    assert len(fused_module(single, cores=1).functions) == 2


def test_sums_of_vectors_stay_in_vectors() -> None:
    """Of columns first, rows outermost: one vector would wait for itself at every pixel."""
    script = script_of(norm((1, 2, 56, 40, 32)), Cpu("skylake-avx512", AVX512, cores=2))
    assert "for n_o_fused in T.parallel(T.int64(2))" in script
    rows = "for ax4, ax0, ax1, ax2 in T.grid(T.int64(56), T.int64(1), T.int64(1), T.int64(40)):"
    assert script.count(rows) == 2, "once for the mean, once for the variance"
    assert script.count("in T.vectorized(T.int64(32))") == 8, "of four sums, their zeros and terms"
