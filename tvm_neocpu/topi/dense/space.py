"""The configuration space of the packed dense template."""

from __future__ import annotations

import math

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload

# Rows of the batch in a register tile, and how many tiles of equal height a batch is cut into.
ROWS, MAX_EQUAL_TILES = (1, 2, 4, 6, 8, 12, 14), 4
# Blocks of outputs whose weights a core reads side by side. Odd numbers are for one row: LLVM keeps
# no tile of 8 rows x 3 blocks in 32 registers.
STREAMS, STREAMS_OF_ROWS = (1, 2, 3, 4, 5), (1, 2, 4)


def accepts(dense: DenseWorkload, cpu: Cpu) -> bool:
    return True


def space(dense: DenseWorkload, cpu: Cpu) -> tuple[DenseConfig, ...]:
    """Blocks of one to eight vectors of outputs, rows of the batch, reduction unrolling, streams.

    Weights that several tiles of rows read again come out of caches, where one stream is enough.
    """
    unit = cpu.unit(dense.types.accumulator)
    widest = max(unit.lanes, math.ceil(dense.out_features / unit.lanes) * unit.lanes)
    blocks = [v * unit.lanes for v in (1, 2, 3, 4, 5, 6, 8) if v * unit.lanes <= widest]
    return tuple(
        DenseConfig(oc_bn, reg_n, unroll_k, streams)
        for oc_bn in blocks
        for streams in (STREAMS if dense.batch == 1 else STREAMS_OF_ROWS)
        if math.ceil(dense.out_features / oc_bn) % streams == 0
        for reg_n in row_tiles(dense)
        if streams == 1 or reg_n == dense.batch
        if unit.holds_tile(reg_n, oc_bn // unit.lanes * streams)
        for unroll_k in (1, 2, 4, 8)
    )


def row_tiles(dense: DenseWorkload) -> tuple[int, ...]:
    """Heights of register tiles; those of a few equal tiles too: 7 for a batch of 7 or 13."""
    equal = (math.ceil(dense.batch / tiles) for tiles in range(1, MAX_EQUAL_TILES + 1))
    heights = {rows for rows in (*ROWS, *equal) if rows <= min(dense.batch, ROWS[-1])}
    return tuple(sorted(heights))
