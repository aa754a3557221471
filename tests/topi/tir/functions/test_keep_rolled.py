"""Reductions over tiles of one vector stay rolled where two steps of them would spill."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from assembly import innermost_loops
from tvm.target import Target

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.functions.keep_rolled import (
    FULL_LIMIT,
    PARTIAL_LIMIT,
    ROLLED_KEY,
    fake_uses,
)
from tvm_neocpu.topi.tir.loops.fake_use import FAKE_USE

ZEN3 = Cpu("znver3", AVX2, cores=1)
GROUPED = ConvWorkload(1, 32, 14, 14, 32, (3, 3), (1, 1), (1, 1, 1, 1), groups=4)
ONE_VECTOR = ConvConfig(8, 8, 14, unroll_ker=False)


@pytest.mark.parametrize(
    ("isa", "pixels", "vectors", "spills"),
    [
        pytest.param(AVX2, 14, 1, True, id="14 accumulators and 28 pixels in 16 registers"),
        pytest.param(AVX2, 8, 1, True, id="one register short"),
        pytest.param(AVX2, 7, 1, False, id="two steps fit"),
        pytest.param(AVX2, 6, 2, False, id="a pixel is used twice"),
        pytest.param(AVX512, 14, 1, False, id="32 registers"),
        pytest.param(NEON, 14, 1, False, id="32 registers of 4 lanes"),
    ],
)
def test_two_steps_spill(isa, pixels: int, vectors: int, spills: bool) -> None:
    unit = Cpu("any", isa, cores=1).unit("float32")
    assert unit.spills_unrolled(pixels, vectors) is spills


@pytest.mark.parametrize("extent", [2, 3, 4, 8, 64])
def test_a_step_is_too_large_to_be_unrolled(extent: int) -> None:
    assert 2 * len(fake_uses(extent)) >= PARTIAL_LIMIT
    assert extent * len(fake_uses(extent)) >= FULL_LIMIT - extent


def test_marked_reductions_alone_get_fake_uses() -> None:
    script = schedule_blocks(unscheduled(GROUPED, ONE_VECTOR), ZEN3).script()
    assert script.count("fake_use") and ROLLED_KEY not in script
    two_vectors = ConvWorkload(1, 32, 14, 14, 32, (3, 3), (1, 1), (1, 1, 1, 1))
    wide = schedule_blocks(unscheduled(two_vectors, ConvConfig(8, 16, 2, reg_m=2)), ZEN3)
    assert "fake_use" not in wide.script()


@pytest.mark.parametrize(("vectors", "rolled"), [(3, True), (1, False)])
def test_steps_of_many_weights_stay_rolled_beside_few_pixels(vectors: int, rolled: bool) -> None:
    """12 words: three steps of 2 pixels x 3 vectors have 9 vectors of weights."""
    cpu = replace(ZEN3, dots=dots_of(frozenset({"sse2", "avx2"})))
    conv = ConvWorkload(1, 24, 4, 4, 24, (1, 1), types=U8S8)
    config = IntegerConfig(24, 8 * vectors, 2, dot=2)
    assert ("fake_use" in str(kernel(conv, config, cpu))) == rolled


def test_the_tile_stays_in_registers() -> None:
    target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver3"})
    built = tvm.compile(kernel(GROUPED, ONE_VECTOR, ZEN3), target=target)
    asm = built.mod.inspect_source("asm")
    steps = [loop for loop in innermost_loops(asm) if loop.count("vfmadd") > 1]
    assert steps and FAKE_USE not in asm
    for step in steps:
        assert step.count("vfmadd") == step.count("vbroadcastss") == 14
        assert "(%rsp)" not in step
