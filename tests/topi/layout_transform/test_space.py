"""The layout transform's space: one config, where both blocks divide the channels."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.space import accepts, space
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

CPU = Cpu("skylake-avx512", AVX512, cores=2)
MOVE = TransformWorkload(1, 64, 56, 56, 16, 8)


def test_blocks_divide_the_channels() -> None:
    assert accepts(MOVE, CPU)
    assert not accepts(replace(MOVE, after=24), CPU)
    assert not accepts(replace(MOVE, before=24), CPU)


def test_there_is_one_way_to_move() -> None:
    assert space(MOVE, CPU) == (TransformConfig(),)
