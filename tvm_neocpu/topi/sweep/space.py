"""The configuration space of sweeps: none, they are priced and not chosen."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload


def accepts(sweep: SweepWorkload, cpu: Cpu) -> bool:
    """Nothing: there is no template."""
    return False


def space(sweep: SweepWorkload, cpu: Cpu) -> tuple[SweepConfig, ...]:
    return ()
