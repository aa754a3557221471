"""What the cost model says of the integer Winograd template: the fp32 one's terms, over words."""

from __future__ import annotations

from functools import partial

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.cost import pricing_of, seconds_of
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    IntegerWinogradConfig,
    IntegerWinogradGeometry,
)
from tvm_neocpu.topi.operator import Price


def predict_seconds(conv: ConvWorkload, config: IntegerWinogradConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return seconds_of(IntegerWinogradGeometry(conv, config), cpu)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs."""
    return pricing_of(partial(IntegerWinogradGeometry, conv), cpu)
