"""The configuration space of the integer dense template."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import SIGNED_BYTES, DotProduct
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig
from tvm_neocpu.topi.gemm.tiles import chunk_sizes, tile_shapes

# With more rows than this each weight is multiplied so often that memory does not decide.
MAX_STREAMED_ROWS = 4


def accepts(dense: DenseWorkload, cpu: Cpu) -> bool:
    return True


def space(dense: DenseWorkload, cpu: Cpu) -> tuple[IntegerDenseConfig, ...]:
    """Register tiles that fit, chunks of rows or of rows and outputs."""
    unit = cpu.unit(dense.types.accumulator)
    return tuple(
        IntegerDenseConfig(
            vectors * unit.lanes,
            height,
            tiles,
            parallel_oc,
            False,
            dot.elements,
            dot.data == SIGNED_BYTES,
        )
        for dot in instructions(dense, cpu)
        for height, vectors in tile_shapes(dense.batch, dense.out_features, cpu, unit)
        if height == 1 or unit.holds_tile(height, vectors, 1 + dot.temporaries)
        for tiles in chunk_sizes(dense.batch, height, dense.in_features * item_bytes(dot.data), cpu)
        for parallel_oc in (False, True)
        if not (parallel_oc and dense.out_features % (vectors * unit.lanes))
    )


def instructions(dense: DenseWorkload, cpu: Cpu) -> tuple[DotProduct, ...]:
    """The fastest; of few rows also one that takes weights as bytes: memory decides their time."""
    best = cpu.dot(dense.types)
    bytewise = [dot for dot in cpu.dots if dot.multiplies(dense.types) and dot.elements == 4]
    if best.elements == 4 or dense.batch > MAX_STREAMED_ROWS:
        return (best,)
    return (best, *bytewise[:1])
