"""Lines that other cores have written."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import AVX2, KIB, Cpu
from tvm_neocpu.topi.cost.foreign import (
    FOREIGN_L2_CYCLES,
    FOREIGN_L3_CYCLES,
    cycles_of_line,
    foreign_lines,
)

CPU = Cpu("cpu", AVX2, cores=4, l2=256 * KIB)


def test_a_core_waits_for_none_of_its_own_lines() -> None:
    assert foreign_lines(64 * CPU.line, 1.0, CPU) == 48
    assert foreign_lines(64 * CPU.line, 0.5, CPU) == 24
    assert foreign_lines(64 * CPU.line, 1.0, Cpu("cpu", AVX2, cores=1)) == 0


def test_what_outgrows_the_l2_of_all_cores_has_left_for_l3() -> None:
    assert cycles_of_line(4 * 256 * KIB, CPU) == FOREIGN_L2_CYCLES
    assert cycles_of_line(4 * 256 * KIB + 64, CPU) == FOREIGN_L3_CYCLES
