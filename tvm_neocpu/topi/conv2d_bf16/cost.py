"""What the cost model says of the bf16 template: the direct one's terms, over words of pairs."""

from __future__ import annotations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config, Bf16Geometry
from tvm_neocpu.topi.conv2d_direct.cost import seconds_of


def predict_seconds(conv: ConvWorkload, config: Bf16Config, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return seconds_of(Bf16Geometry(conv, config), cpu)
