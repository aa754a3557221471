"""The configuration space of the batched product."""

from __future__ import annotations

from itertools import product as combinations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.gemm.tiles import chunk_sizes, tile_shapes


def accepts(product: MatmulWorkload, cpu: Cpu) -> bool:
    return True


def space(product: MatmulWorkload, cpu: Cpu) -> tuple[MatmulConfig, ...]:
    """Register tiles that fit, chunks of rows; panels shared or not, rows copied or not."""
    unit = cpu.unit(product.types.accumulator)
    row_bytes = product.inner * item_bytes(product.types.data)
    return tuple(
        MatmulConfig(vectors * unit.lanes, height, tiles, shared, copies)
        for height, vectors in tile_shapes(product.rows, product.columns, cpu, unit)
        for tiles in chunk_sizes(product.rows, height, row_bytes, cpu)
        for shared, copies in combinations((False, True), repeat=2)
    )
