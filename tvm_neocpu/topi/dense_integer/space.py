"""The configuration space of the integer dense template."""

from __future__ import annotations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig
from tvm_neocpu.topi.gemm.tiles import chunk_sizes, tile_shapes


def accepts(dense: DenseWorkload, cpu: Cpu) -> bool:
    return True


def space(dense: DenseWorkload, cpu: Cpu) -> tuple[IntegerDenseConfig, ...]:
    """Register tiles that fit, chunks of rows or of rows and outputs."""
    unit, dot = cpu.unit(dense.types.accumulator), cpu.dot(dense.types)
    row_bytes = dense.in_features * item_bytes(dot.data)
    return tuple(
        IntegerDenseConfig(vectors * unit.lanes, height, tiles, parallel_oc, False, dot.elements)
        for height, vectors in tile_shapes(dense.batch, dense.out_features, cpu, unit)
        if height == 1 or unit.holds_tile(height, vectors, 1 + dot.temporaries)
        for tiles in chunk_sizes(dense.batch, height, row_bytes, cpu)
        for parallel_oc in (False, True)
        if not (parallel_oc and dense.out_features % (vectors * unit.lanes))
    )
