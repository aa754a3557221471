"""What the cost model says of the packed dense template: at batch 1 the weights decide."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import widening_of
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.cost.roofline import (
    L2_SHARE,
    Traffic,
    Work,
    in_streams,
    seconds,
    tile_step_cycles,
)
from tvm_neocpu.topi.dense.geometry import DenseConfig, DenseGeometry
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.gemm.tiles import rows_evict_each_other


def predict_seconds(dense: DenseWorkload, config: DenseConfig, cpu: Cpu) -> float:
    """Weights cross each cache boundary once for each tile of the batch.

    The sums of all rows are written, read and stored by a pass of their own.
    """
    geometry, unit = DenseGeometry(dense, config), cpu.unit(dense.types.accumulator)
    vectors = unit.registers_of(config.oc_bn) * geometry.streams
    tiles = geometry.row_tiles
    widening = widening_of(dense.types.weight)
    share = unit.issue_share(config.oc_bn)
    per_step = tile_step_cycles(
        geometry.reg_n,
        vectors,
        cpu,
        unit,
        _l2_bytes_a_step(geometry, cpu),
        widening=widening,
        share=share,
    )
    per_step += 1.0 / geometry.unroll_k
    cycles = tiles * geometry.chunks * dense.in_features * per_step
    weights = float(item_bytes(dense.types.weight) * math.prod(geometry.packed_shape))
    passes = tiles if weights / geometry.chunks > L2_SHARE * cpu.l2 else 1
    # Read in order, weights come as fast as memory gives them, and multiply meanwhile.
    walked_again = weights * (tiles - 1), weights * (passes - 1)
    sums = 2.0 * item_bytes(dense.types.output) * geometry.rows * dense.out_features
    # A pass of its own hides behind nothing.
    bandwidth = cpu.l2_bytes_per_cycle if sums <= L2_SHARE * cpu.l2 else cpu.l3_bytes_per_cycle
    cycles += 2.0 * geometry.rows * math.ceil(dense.out_features / unit.lanes) + sums / bandwidth
    traffic = Traffic(*walked_again, from_dram=0.0, prefetched=weights)
    forks = cpu.fork_join * (dense.batch > 1)
    fed = in_streams(cpu, geometry.streams)
    return seconds(Work(cycles, geometry.chunks, traffic), fed) + forks


def _l2_bytes_a_step(geometry: DenseGeometry, cpu: Cpu) -> float:
    """What a step reads of its rows from L2: their lines, once for each unrolled reduction, where
    they evict each other.

    Zen 3, 26x512->97, one thread, blocks of 8: 9 rows at once 34 us, 13 rows 42, copied first 34.
    """
    pitch = geometry.dense.in_features * item_bytes(geometry.dense.types.data)
    if not rows_evict_each_other(geometry.reg_n, pitch, cpu):
        return 0.0
    return geometry.reg_n * cpu.line / geometry.unroll_k
