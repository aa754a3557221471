"""The configuration space of the bf16 dense template: register tiles, chunks of rows."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig
from tvm_neocpu.topi.dense_gemm.space import MIN_ROWS
from tvm_neocpu.topi.gemm.tiles import chunk_sizes, tile_shapes
from tvm_neocpu.topi.math.half_precision import BITS


def accepts(dense: DenseWorkload, cpu: Cpu) -> bool:
    """Several rows, on a CPU with the instruction; of one row memory decides, not products."""
    return dense.batch >= MIN_ROWS and cpu.bf16 is not None


def space(dense: DenseWorkload, cpu: Cpu) -> tuple[Bf16DenseConfig, ...]:
    """Register tiles that fit beside what a step needs, chunks of rows or of rows and outputs."""
    unit, dot = cpu.unit(dense.types.accumulator), cpu.bf16
    assert dot is not None, "only a CPU with the instruction has a space"
    row_bytes = dense.in_features * item_bytes(BITS)
    return tuple(
        Bf16DenseConfig(vectors * unit.lanes, height, tiles, parallel_oc)
        for height, vectors in tile_shapes(dense.batch, dense.out_features, cpu, unit)
        if height == 1 or unit.holds_tile(height, vectors, 1 + dot.temporaries)
        for tiles in chunk_sizes(dense.batch, height, row_bytes, cpu)
        for parallel_oc in (False, True)
        if not (parallel_oc and dense.out_features % (vectors * unit.lanes))
    )
