"""The configuration space of the packed dense template and what the cost model says of it."""

from __future__ import annotations

import math

from tvm_neocpu.core.config import DenseConfig
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.workload import DenseWorkload
from tvm_neocpu.topi.cost.roofline import Work, seconds, tile_step_cycles


def accepts(dense: DenseWorkload, cpu: Cpu) -> bool:
    return True


def space(dense: DenseWorkload, cpu: Cpu) -> tuple[DenseConfig, ...]:
    """Blocks of one to eight vectors of outputs, rows of the batch, reduction unrolling."""
    widest = max(cpu.lanes, math.ceil(dense.out_features / cpu.lanes) * cpu.lanes)
    blocks = [v * cpu.lanes for v in (1, 2, 3, 4, 5, 6, 8) if v * cpu.lanes <= widest]
    return tuple(
        DenseConfig(oc_bn, reg_n, unroll_k)
        for oc_bn in blocks
        for reg_n in (1, 2, 4, 6, 8, 12, 14)
        if reg_n <= dense.batch and cpu.holds_tile(reg_n, oc_bn // cpu.lanes)
        for unroll_k in (1, 2, 4, 8)
    )


def predict_seconds(dense: DenseWorkload, config: DenseConfig, cpu: Cpu) -> float:
    """Weights cross every cache boundary once per tile of the batch that does not share them."""
    vectors = config.oc_bn // cpu.lanes
    blocks = math.ceil(dense.out_features / config.oc_bn)
    rows = math.ceil(dense.batch / config.reg_n)
    per_step = tile_step_cycles(config.reg_n, vectors, cpu) + 1.0 / config.unroll_k
    cycles = rows * blocks * dense.in_features * per_step
    weight_bytes = 4.0 * blocks * config.oc_bn * dense.in_features
    block_bytes = weight_bytes / blocks
    passes = rows if block_bytes > 0.7 * cpu.l2 else 1
    # Read in order, weights come as fast as memory gives them, and multiply meanwhile.
    later = weight_bytes * (rows - 1), weight_bytes * (passes - 1)
    return seconds(Work(cycles, blocks, *later, from_dram=0.0, prefetched=weight_bytes), cpu)
