"""A sweep in a layout: what it is called, and what it reads and writes."""

from __future__ import annotations

from tvm_neocpu.core.network.conv_graph import Sweep, SweepKind
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.sweep.workload import SweepWorkload

POOL = Sweep(SweepKind.POOL, ((1, 64, 112, 112),), (1, 64, 56, 56), 9)


def test_a_block_of_one_channel_is_plain() -> None:
    assert SweepWorkload.of(POOL, Layout(1)) == SweepWorkload.of(POOL, NCHW)
    assert SweepWorkload.of(POOL, Layout(16)) != SweepWorkload.of(POOL, Layout(8))


def test_bytes_and_loads() -> None:
    pool = SweepWorkload.of(POOL, Layout(16))
    assert pool.min_bytes == 4 * 64 * (112 * 112 + 56 * 56)
    assert pool.reads == pool.flops == 9 * 64 * 56 * 56
    copy = SweepWorkload("move", (POOL.output, POOL.output), (1, 128, 56, 56), 1, 0)
    assert copy.flops == 0


def test_the_text_says_all() -> None:
    assert str(SweepWorkload.of(POOL, Layout(16))) == "pool of 9 64x112x112 -> 64x56x56 NCHW16c"
    both = SweepWorkload("move", ((1, 8, 2, 2), (1, 4, 2, 2)), (1, 12, 2, 2), 1, 0, uniform("int8"))
    assert str(both) == "move 8x2x2 + 4x2x2 -> 12x2x2 NCHW int8"
