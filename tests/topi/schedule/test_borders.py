"""Rows that are copied with borders: vectors in between, right elements everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from one_module import Case, scheduled_results, script_of
from tvm import relax, te, topi
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.schedule.borders import interior_of
from tvm_neocpu.topi.schedule.stages import row_attrs

op = relax.op
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)


def emitted(compute, *arguments):
    """The importer's way: loops at once."""

    def build(x: relax.Expr) -> relax.Expr:
        builder = relax.BlockBuilder.current()
        assert builder is not None
        return builder.call_te(compute, x, *arguments)

    return build


def resized(rows: int, columns: int, mode: str, rounding: str):
    return lambda x: op.image.resize2d(
        x,
        (rows, columns),
        method="nearest_neighbor",
        coordinate_transformation_mode=mode,
        rounding_method=rounding,
    )


CASES: list[tuple[Case, object]] = [
    (
        ((1, 2, 9, 37), "float32", emitted(topi.nn.replicate_pad, [0, 0, 1, 2], [0, 0, 3, 4])),
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 3), (2, 4)], "edge"),
    ),
    (
        ((1, 2, 9, 37), "float32", emitted(topi.nn.mirror_pad, [0, 0, 1, 2], [0, 0, 3, 4])),
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 3), (2, 4)], "symmetric"),
    ),
    (
        ((1, 2, 9, 5), "int32", emitted(topi.nn.mirror_pad, [0, 0, 0, 4], [0, 0, 0, 4], "REFLECT")),
        lambda x: np.pad(x, [(0, 0), (0, 0), (0, 0), (4, 4)], "reflect"),
    ),
    (
        ((2, 9, 40), "float64", lambda x: op.nn.pad(x, [0, 0, 1, 1, 3, 3], "circular")),
        lambda x: np.pad(x, [(0, 0), (1, 1), (3, 3)], "wrap"),
    ),
    (((3, 40), "float32", lambda x: op.flip(x, 1)), lambda x: x[:, ::-1]),
    (
        ((1, 3, 5, 7), "float32", resized(10, 14, "asymmetric", "floor")),
        lambda x: x.repeat(2, 2).repeat(2, 3),
    ),
    (
        ((1, 3, 5, 33), "float32", resized(15, 99, "half_pixel", "round")),
        lambda x: x.repeat(3, 2).repeat(3, 3),
    ),
    (
        ((1, 3, 5, 9), "float32", resized(5, 36, "half_pixel", "round_prefer_floor")),
        lambda x: x.repeat(4, 3),
    ),
    (
        (
            (1, 3, 5, 20),
            "float32",
            lambda x: op.nn.relu(resized(5, 40, "asymmetric", "floor")(x)),
        ),
        lambda x: np.maximum(x.repeat(2, 3), 0),
    ),
]


@pytest.mark.parametrize("flags", ["llvm", "llvm -mcpu=haswell"])
def test_every_element(flags: str) -> None:
    rng = np.random.default_rng(0)
    cases = [case for case, _ in CASES]
    inputs = [(100 * rng.normal(size=shape)).astype(dtype) for shape, dtype, _ in cases]
    found = scheduled_results(cases, inputs, parse_target(flags))
    for one, x, (case, expected) in zip(found, inputs, CASES, strict=True):
        np.testing.assert_array_equal(one, expected(x), err_msg=str(case[:2]))


def test_a_mirrored_image_is_no_run_of_elements() -> None:
    """Its rows are copied as vectors. As one row of an image every element was gathered."""
    mirror = emitted(topi.nn.mirror_pad, [0, 0, 1, 1], [0, 0, 1, 1], "REFLECT")
    text = script_of(((1, 64, 56, 56), "float32", mirror), SKYLAKE)
    assert "lane" not in text and "x0[T.int64(0), i0_i1_i2_fused // T.int64(58)" in text


def test_between_the_borders_are_vectors() -> None:
    text = script_of(CASES[0][0], SKYLAKE)
    assert "T.Ramp(" in text or ":v * T.int64(16)" in text or "T.int64(18)] = x0[" in text


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (lambda x: te.max(0, te.min(9, x - 3)), (3, 13)),
        (lambda x: x, None),
        (lambda x: 19 - x, None),
    ],
)
def test_the_run_between_the_borders(index, expected) -> None:
    data = te.placeholder((2, 20), name="data")
    copy = te.compute((2, 20), lambda y, x: data[y, index(x)], name="copy")
    sch = Schedule(te.create_prim_func([data, copy]))
    assert interior_of(sch, sch.get_sblock("copy")) == expected


def test_a_row_may_begin_inside_a_repeated_pixel() -> None:
    """The last vector of 19 columns begins at an odd one."""
    x = np.random.default_rng(0).normal(size=(2, 10)).astype("float32")

    def repeated(data: te.Tensor) -> te.Tensor:
        return te.compute((2, 19), lambda y, x: data[y, x // 2], name="copy", attrs=row_attrs())

    (found,) = scheduled_results([(x.shape, "float32", emitted(repeated))], [x], parse_target())
    np.testing.assert_array_equal(found, x.repeat(2, 1)[:, :19])
