"""What the cost model says of dense layers in bf16: a matrix product of words."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig, Bf16DenseGeometry
from tvm_neocpu.topi.dense_integer.cost import seconds_of


def predict_seconds(dense: DenseWorkload, config: Bf16DenseConfig, cpu: Cpu) -> float:
    """Seconds of one run on ``cpu.cores`` threads."""
    return seconds_of(Bf16DenseGeometry(dense, config), cpu.bf16, cpu)
