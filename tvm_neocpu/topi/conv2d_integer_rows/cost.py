"""What the cost model says of the row template: the direct one's terms, over fewer words."""

from __future__ import annotations

from functools import partial

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import pricing_of, seconds_of
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsConfig, ImageRowsGeometry
from tvm_neocpu.topi.operator import Price


def predict_seconds(conv: ConvWorkload, config: ImageRowsConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return seconds_of(ImageRowsGeometry(conv, config), cpu)


def pricing(conv: ConvWorkload, cpu: Cpu) -> Price:
    """:func:`predict_seconds` for many configs."""
    return pricing_of(partial(ImageRowsGeometry, conv), cpu, copies_blocks=True)
