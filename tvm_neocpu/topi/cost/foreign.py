"""What a core waits for lines that other cores have written."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu

# Cycles that a core waits for a line which another core has written and still holds in its L2. Zen
# 3, two cores, MobileNet-v2: the 1x1 layers at 14x14 wait 40 to 130, depending on the machine's
# mood; lines that have left for L3 cost 10. So do those of a depthwise layer, which reads row after
# row (MobileNet-v2 and v3, behind expansions: 0 to 33).
FOREIGN_L2_CYCLES, FOREIGN_L3_CYCLES = 40.0, 10.0


def foreign_lines(written: float, read: float, cpu: Cpu) -> float:
    """Lines from other cores that a core reads of ``written`` bytes, of which it reads a share."""
    return written / cpu.line * read * (cpu.cores - 1) / cpu.cores


def cycles_of_line(written: float, cpu: Cpu) -> float:
    """Cycles that such a line takes, where all cores together have written so many bytes."""
    return FOREIGN_L2_CYCLES if written / cpu.cores <= cpu.l2 else FOREIGN_L3_CYCLES
