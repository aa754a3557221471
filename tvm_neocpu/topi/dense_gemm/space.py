"""The configuration space of the dense template for many rows."""

from __future__ import annotations

from itertools import product

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig
from tvm_neocpu.topi.gemm.tiles import block_shapes, chunk_sizes

# With one row there is nothing to hold in registers.
MIN_ROWS = 2


def accepts(dense: DenseWorkload, cpu: Cpu) -> bool:
    return dense.batch >= MIN_ROWS


def space(dense: DenseWorkload, cpu: Cpu) -> tuple[GemmConfig, ...]:
    """Register tiles that fit, chunks of rows or of rows and outputs, rows copied or in place."""
    unit = cpu.unit(dense.types.accumulator)
    row_bytes = dense.in_features * item_bytes(dense.types.data)
    return tuple(
        GemmConfig(oc_bn, height, tiles, parallel_oc, copies)
        for height, oc_bn in block_shapes(dense.batch, dense.out_features, cpu, unit)
        for tiles in chunk_sizes(dense.batch, height, row_bytes, cpu)
        for parallel_oc, copies in product((False, True), repeat=2)
        if not (parallel_oc and dense.out_features % oc_bn)
    )
