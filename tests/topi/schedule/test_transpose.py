"""Transposes in square tiles: right answers for every extent, marks only where tiles fit."""

from __future__ import annotations

import numpy as np
import pytest
from one_module import Build, Case, fused_module, run, scheduled_results, script_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.schedule.transpose import side_of

op = relax.op
TARGETS = [parse_target(), parse_target("llvm -mcpu=haswell")]
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)


def turned(*axes: int) -> Build:
    return lambda x: op.permute_dims(x, list(axes))


def squared_above_zero(x: relax.Expr) -> relax.Expr:
    """Its fused stage reads the turned element twice."""
    image = op.permute_dims(x, [0, 2, 3, 1])
    return op.multiply(image, op.nn.relu(image))


def turned_part(*axes: int) -> Build:
    """Of the first half of the last axis, whose rows have gaps between them."""

    def build(x: relax.Expr) -> relax.Expr:
        half = int(x.ty.shape[-1]) // 2
        part = op.strided_slice(x, [x.ty.ndim - 1], [0], [half])
        return op.permute_dims(part, list(axes))

    return build


# (shape, dtype, computation): images that tiles divide, images that the last tile overlaps, images
# smaller than a tile, axes that lie side by side in both tensors, an epilogue, a prologue.
CASES: list[Case] = [
    ((1, 32, 8, 8), "float32", turned(0, 2, 3, 1)),
    ((2, 19, 7, 7), "float32", turned(0, 2, 3, 1)),
    ((1, 40, 9, 21), "float32", turned(0, 2, 3, 1)),
    ((33, 47), "float32", turned(1, 0)),
    ((130, 700), "float32", turned(1, 0)),
    ((2, 18, 3, 20), "float32", turned(2, 0, 3, 1)),
    ((2, 18, 3, 20), "float32", turned(3, 2, 1, 0)),
    ((4, 5, 6, 7, 8), "float32", turned(0, 4, 1, 3, 2)),
    ((21, 37), "float64", turned(1, 0)),
    ((21, 37), "int64", turned(1, 0)),
    ((21, 37), "uint8", turned(1, 0)),
    ((2, 24, 9, 9), "float32", lambda x: op.nn.relu(op.permute_dims(x, [0, 2, 3, 1]))),
    ((2, 24, 9, 9), "float32", lambda x: op.permute_dims(op.negative(x), [0, 2, 3, 1])),
    (
        (2, 24, 9, 9),
        "float32",
        lambda x: op.multiply(
            op.permute_dims(x, [0, 2, 3, 1]), relax.const(np.arange(24, dtype="float32"))
        ),
    ),
    (
        (1, 20, 18, 18),
        "float32",
        lambda x: op.permute_dims(op.nn.pad(x, [0, 0, 0, 0, 9, 9, 9, 9]), [0, 2, 3, 1]),
    ),
    ((20, 24), "float32", lambda x: op.permute_dims(op.flip(x, 0), [1, 0])),
    ((2, 24, 9, 9), "float32", squared_above_zero),
    ((2, 12, 12), "float32", lambda x: op.add(x, op.permute_dims(x, [0, 2, 1]))),
    ((1, 8, 1, 4), "float32", turned_part(0, 2, 3, 1)),
    ((1, 3, 2, 4), "float32", turned_part(0, 2, 3, 1)),
    ((1, 3, 16, 32), "float32", turned_part(0, 2, 3, 1)),
    ((1, 16, 6), "float32", turned_part(0, 2, 1)),
    ((1, 20, 9, 18), "float32", turned_part(0, 2, 3, 1)),
    # Two and three rows become one; the last vector overlaps, or is the only one.
    ((2, 3, 9, 21), "float32", turned(0, 2, 3, 1)),
    ((1, 2, 5, 7), "float32", turned(0, 2, 3, 1)),
    ((1, 3, 3, 2), "float64", turned(0, 2, 3, 1)),
    ((3, 129), "int32", turned(1, 0)),
    ((1, 3, 120, 160), "float32", turned(0, 2, 3, 1)),
    ((1, 3, 9, 9), "float32", lambda x: op.nn.relu(op.permute_dims(x, [0, 2, 3, 1]))),
    ((4, 3, 3, 20), "float32", turned(0, 3, 2, 1)),
    # One row becomes two or three.
    ((2, 9, 21, 3), "float32", turned(0, 3, 1, 2)),
    ((1, 5, 7, 2), "float32", turned(0, 3, 1, 2)),
    ((1, 3, 2, 3), "float64", turned(0, 3, 1, 2)),
    ((129, 3), "int32", turned(1, 0)),
    ((1, 120, 160, 3), "float32", turned(0, 3, 1, 2)),
    ((2, 2, 40, 3), "float32", turned(1, 0, 3, 2)),
    ((1, 9, 9, 3), "float32", lambda x: op.permute_dims(op.nn.relu(x), [0, 3, 1, 2])),
    ((2, 12, 12), "int32", lambda x: op.astype(op.permute_dims(x, [0, 2, 1]), "float32")),
]


@pytest.fixture(scope="module")
def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(100 * rng.normal(size=shape)).astype(dtype) for shape, dtype, _ in CASES]


@pytest.fixture(scope="module")
def expected(inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What plain loops make of the inputs."""
    return run(fused_module(CASES), parse_target().target, inputs)


@pytest.mark.parametrize("target", TARGETS, ids=["here", "haswell"])
def test_answers_are_those_of_plain_loops(
    target: CompileTarget, inputs: list[np.ndarray], expected: list[np.ndarray]
) -> None:
    found = scheduled_results(CASES, inputs, target)
    for one, other, case in zip(found, expected, CASES, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(case[:2]))


def scheduled(shape: tuple[int, ...], build: Build, cpu: Cpu = SKYLAKE) -> str:
    return script_of((shape, "float32", build), cpu)


def test_tiles_are_shuffled_in_registers() -> None:
    text = scheduled((1, 64, 56, 56), turned(0, 2, 3, 1))
    assert "T.Shuffle(" in text
    assert "T.let[T.float32x16]" in text
    assert "in T.parallel(" in text


def test_few_channels_interleave() -> None:
    text = scheduled((1, 3, 224, 224), turned(0, 2, 3, 1), Cpu("haswell", AVX2, cores=2))
    assert "T.Shuffle([x0[" in text
    assert "in T.parallel(T.int64(49))" in text, "6272 vectors, 128 a chunk"


def test_few_channels_are_separated() -> None:
    text = scheduled((1, 224, 224, 3), turned(0, 3, 1, 2), Cpu("haswell", AVX2, cores=2))
    assert "T.Shuffle([pixels" in text
    assert "in T.parallel(T.int64(49))" in text, "6272 vectors, 128 a chunk"


def test_an_element_that_is_read_twice_is_turned_too() -> None:
    assert "T.let[T.float32x16]" in scheduled((1, 64, 20, 20), squared_above_zero)


def test_a_7x7_image_is_a_row_of_49_pixels() -> None:
    text = scheduled((1, 512, 7, 7), turned(0, 2, 3, 1))
    assert "T.let[T.float32x16]" in text


def test_narrow_images_take_small_tiles() -> None:
    assert "T.let[T.float32x4]" in scheduled((6, 6), turned(1, 0))
    assert "T.Shuffle(" not in scheduled((100, 3), lambda x: op.nn.relu(turned(1, 0)(x)))


@pytest.mark.parametrize(
    ("isa", "extent", "dtype", "side"),
    [
        (AVX512, 100, "float32", 16),
        (AVX512, 15, "float32", 8),
        (AVX512, 3, "float32", None),
        (AVX512, 100, "float64", 8),
        (AVX512, 100, "int8", None),
        (AVX2, 100, "float32", 8),
        (NEON, 100, "float32", 4),
        (NEON, 100, "float64", 4),
    ],
)
def test_side_of_a_tile(isa, extent: int, dtype: str, side: int | None) -> None:
    assert side_of(extent, dtype, Cpu("any", isa, cores=1).unit(dtype)) == side
