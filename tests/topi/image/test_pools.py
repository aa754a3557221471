"""Pools in two passes: every window's element and mean, NaN where one loop would leave it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from one_module import Case, scheduled_results, script_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.image.pools import Windows

op = relax.op
MAX, AVERAGE = op.nn.max_pool2d, op.nn.avg_pool2d
TARGETS = [parse_target(), parse_target("llvm -mcpu=haswell")]
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)

# (shape, type, pool, its attributes): odd widths, images narrower than a vector, every stride,
# dilation, unequal pads, blocked layouts with small and large windows.
POOLS = [
    ((1, 3, 13, 13), "float32", MAX, dict(pool_size=[13, 13], padding=[6] * 4)),
    ((2, 2, 9, 37), "float32", MAX, dict(pool_size=[3, 3], strides=[2, 2], padding=[1] * 4)),
    ((1, 2, 9, 36), "float32", MAX, dict(pool_size=[3, 2], strides=[2, 2])),
    ((1, 2, 9, 40), "float32", MAX, dict(pool_size=[2, 3], strides=[1, 3], padding=[0, 2, 1, 0])),
    ((1, 2, 12, 21), "float32", MAX, dict(pool_size=[3, 3], dilation=[2, 3], padding=[2] * 4)),
    ((1, 2, 7, 5), "float64", MAX, dict(pool_size=[5, 5], padding=[2] * 4)),
    ((1, 2, 7, 19), "int32", MAX, dict(pool_size=[3, 3], padding=[1] * 4)),
    ((1, 2, 7, 1), "float32", MAX, dict(pool_size=[2, 1], strides=[1, 2])),
    ((1, 2, 6, 6), "float32", MAX, dict(pool_size=[1, 1], strides=[2, 2])),
    ((1, 2, 9, 8, 16), "float32", MAX, dict(pool_size=[5, 5], padding=[2] * 4, layout="NCHW16c")),
    ((1, 2, 9, 8, 16), "float32", MAX, dict(pool_size=[3, 3], padding=[1] * 4, layout="NCHW16c")),
    ((1, 3, 35, 35), "float32", AVERAGE, dict(pool_size=[3, 3], padding=[1] * 4)),
    (
        (1, 3, 2, 2),
        "float32",
        AVERAGE,
        dict(pool_size=[3, 3], strides=[3, 3], padding=[1] * 4, count_include_pad=True),
    ),
    ((1, 3, 8, 18), "float32", AVERAGE, dict(pool_size=[2, 2], strides=[2, 2])),
    (
        (1, 3, 8, 18),
        "float64",
        AVERAGE,
        dict(pool_size=[3, 4], strides=[1, 2], padding=[1, 2, 0, 1], count_include_pad=True),
    ),
    ((1, 2, 9, 8, 8), "float32", AVERAGE, dict(pool_size=[5, 4], padding=[2] * 4, layout="NCHW8c")),
]


def pool(kind, attributes, x: relax.Expr) -> relax.Expr:
    return kind(x, out_layout=attributes.get("layout", "NCHW"), **attributes)


CASES: list[Case] = [
    (shape, dtype, partial(pool, kind, attributes)) for shape, dtype, kind, attributes in POOLS
]


def expected(x: np.ndarray, kind, attributes) -> np.ndarray:
    """Window by window, in double precision."""
    (kh, kw), (sh, sw) = attributes["pool_size"], attributes.get("strides", [1, 1])
    (dh, dw), (t, left, b, r) = (
        attributes.get("dilation", [1, 1]),
        attributes.get("padding", [0] * 4),
    )
    widths = [(0, 0), (0, 0), (t, b), (left, r), (0, 0)][: x.ndim]
    padded = np.pad(x.astype("float64"), widths, constant_values=np.nan)
    height = (padded.shape[2] - (kh - 1) * dh - 1) // sh + 1
    width = (padded.shape[3] - (kw - 1) * dw - 1) // sw + 1
    windows = np.stack(
        [
            padded[:, :, i * dh :, j * dw :][:, :, : height * sh : sh, : width * sw : sw][
                :, :, :height, :width
            ]
            for i in range(kh)
            for j in range(kw)
        ]
    )
    if kind is MAX:
        return np.nanmax(windows, axis=0)
    if attributes.get("count_include_pad"):
        return np.nansum(windows, axis=0) / (kh * kw)
    return np.nanmean(windows, axis=0)


@pytest.mark.parametrize("target", TARGETS, ids=["here", "haswell"])
def test_every_window(target) -> None:
    rng = np.random.default_rng(0)
    inputs = [(100 * rng.normal(size=shape)).astype(dtype) for shape, dtype, *_ in POOLS]
    found = scheduled_results(CASES, inputs, target)
    for one, x, (shape, dtype, kind, attributes) in zip(found, inputs, POOLS, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(
            one,
            expected(x, kind, attributes),
            rtol=1e-5,
            atol=1e-4,
            err_msg=f"{shape} {attributes}",
        )


# Of codes: unequal pads, strides, images narrower than a vector, windows whose sums leave 16 bits.
POOLS_OF_CODES = [
    ((1, 2, 9, 8, 16), dict(pool_size=[3, 3], padding=[1] * 4, layout="NCHW16c")),
    ((1, 1, 7, 17, 32), dict(pool_size=[3, 3], strides=[2, 2], layout="NCHW32c")),
    ((2, 3, 5, 3, 8), dict(pool_size=[2, 2], padding=[0, 1, 1, 0], layout="NCHW8c")),
    ((1, 1, 6, 7, 4), dict(pool_size=[1, 1], strides=[2, 3], layout="NCHW4c")),
    (
        (1, 2, 9, 9, 16),
        dict(
            pool_size=[3, 2],
            dilation=[2, 3],
            padding=[1, 0, 0, 2],
            count_include_pad=True,
            layout="NCHW16c",
        ),
    ),
    ((1, 3, 35, 35), dict(pool_size=[3, 3], padding=[1] * 4)),
    ((1, 3, 16, 18), dict(pool_size=[16, 16])),
    ((1, 3, 17, 18), dict(pool_size=[17, 17])),
    ((1, 1, 16, 17, 8), dict(pool_size=[15, 17], layout="NCHW8c")),
    ((1, 1, 19, 17, 8), dict(pool_size=[16, 17], layout="NCHW8c")),
]


def of_codes(attributes, x: relax.Expr) -> relax.Expr:
    return pool(AVERAGE, attributes, op.astype(x, "float32"))


@pytest.mark.parametrize("target", TARGETS, ids=["here", "haswell"])
def test_means_of_codes(target) -> None:
    """Up to the last digit: sums are whole numbers, also those of the largest codes alone."""
    rng = np.random.default_rng(0)
    cases: list[Case] = [
        (shape, "uint8", partial(of_codes, attributes)) for shape, attributes in POOLS_OF_CODES
    ]
    for largest in (False, True):
        inputs = [
            np.full(shape, 255, "uint8") if largest else rng.integers(0, 256, shape, "uint8")
            for shape, _ in POOLS_OF_CODES
        ]
        found = scheduled_results(cases, inputs, target)
        for one, x, (shape, attributes) in zip(found, inputs, POOLS_OF_CODES, strict=True):
            wanted = expected(x, AVERAGE, attributes)
            np.testing.assert_allclose(one, wanted, rtol=2e-7, err_msg=f"{shape} {attributes}")


def test_codes_are_added_in_16_bits_where_they_fit() -> None:
    def text(pool_size: list[int]) -> str:
        attributes = dict(pool_size=pool_size, layout="NCHW16c")
        return script_of(((1, 2, 35, 35, 16), "uint8", partial(of_codes, attributes)), SKYLAKE)

    assert "uint16" in text([3, 3])
    assert "uint16" not in text([17, 17])


def test_fused_with_what_follows() -> None:
    pooled = partial(pool, *POOLS[1][2:])
    half = relax.const(np.float32(0.5))
    case: Case = ((2, 2, 9, 37), "float32", lambda x: op.nn.relu(op.add(pooled(x), half)))
    x = np.random.default_rng(0).normal(size=case[0]).astype("float32")
    (found,) = scheduled_results([case], [x], TARGETS[0])
    np.testing.assert_allclose(found, np.maximum(expected(x, *POOLS[1][2:]) + 0.5, 0), rtol=1e-6)
    assert script_of(case, SKYLAKE).count("T.prim_func") == 1


def test_windows_of_minus_infinity_and_nan() -> None:
    """As in ONNX Runtime: the lowest number for -inf alone, a NaN for windows that end with it."""
    x = np.full((2, 2, 9, 37), -np.inf, "float32")
    x[0, 0, 2, 9] = np.nan
    case: Case = (x.shape, "float32", lambda x: MAX(x, [3, 3]))
    (found,) = scheduled_results([case], [x], TARGETS[0])
    wanted = np.full((2, 2, 7, 35), np.finfo("float32").min, "float32")
    wanted[0, 0, 0, 7:10] = np.nan, -np.inf, -np.inf  # what follows a NaN replaces it
    np.testing.assert_array_equal(found, wanted)


def test_planes_run_in_parallel_vectors_without_conditions() -> None:
    case: Case = ((1, 64, 35, 35), "float32", partial(pool, *POOLS[1][2:]))
    text = script_of(case, SKYLAKE)
    assert "in T.parallel(T.int64(64)):" in text
    assert "T.Shuffle(" in text, "elements two apart are picked from whole loads"
    assert "pool_rows = T.sblock_alloc_buffer((T.int64(1), T.int64(1)," in text


def test_few_taps_read_the_image_where_it_lies() -> None:
    def text(taps: int) -> str:
        pooled = partial(pool, MAX, dict(pool_size=[taps] * 2, padding=[taps // 2] * 4))
        return script_of(((1, 64, 35, 35), "float32", pooled), SKYLAKE)

    assert "pool_pad" not in text(3)
    assert "pool_pad = T.sblock_alloc_buffer((T.int64(1), T.int64(1)," in text(5)


def test_windows_of_an_axis() -> None:
    axis = Windows(extent=5, taps=3, stride=2, before=1, after=1, dilation=1)
    assert (axis.padded, axis.count) == (7, 3)
    np.testing.assert_allclose(axis.shares(False, "float64"), [1 / 2, 1 / 3, 1 / 2])
    np.testing.assert_allclose(axis.shares(True, "float32"), [1 / 3] * 3)
