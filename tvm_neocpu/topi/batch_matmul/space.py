"""The configuration space of the batched product."""

from __future__ import annotations

import math
from itertools import product as combinations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.gemm.tiles import block_shapes, chunk_sizes

# Panels in place: tiles of rows that read one, rows of the right matrix.
MOST_TILES, MOST_PAGES = 4, 64


def accepts(product: MatmulWorkload, cpu: Cpu) -> bool:
    return True


def space(product: MatmulWorkload, cpu: Cpu) -> tuple[MatmulConfig, ...]:
    """Register tiles that fit, chunks of rows; panels shared or not, rows copied or not.

    Few rows are multiplied by panels in place, too. What few products would share is cut by panels.
    """
    unit = cpu.unit(product.types.accumulator)
    row_bytes = product.inner * item_bytes(product.types.data)
    shapes = block_shapes(product.rows, product.columns, cpu, unit)
    packed = tuple(
        MatmulConfig(oc_bn, height, tiles, shared, copies)
        for height, oc_bn in shapes
        for tiles in chunk_sizes(product.rows, height, row_bytes, cpu)
        for shared, copies in combinations((False, True), repeat=2)
    )
    apart = tuple(
        MatmulConfig(oc_bn, height, panels, by_panels=True)
        for height, oc_bn in shapes
        if gains_by_panels(product, height, cpu)
        for panels in equal_panel_chunks(product, oc_bn, cpu)
    )
    in_place = tuple(
        MatmulConfig(oc_bn, height, tiles, in_place=True)
        for height, oc_bn in shapes
        if multiplies_in_place(product, height)
        for tiles in panel_chunks(product, oc_bn, cpu)
    )
    return packed + in_place + apart


def gains_by_panels(product: MatmulWorkload, height: int, cpu: Cpu) -> bool:
    """Whether cores would share panels, and tiles are whole.

    With a product for each core none shares any. A core that writes lines which another one read
    waits for each of them (Zen 4: 9 GB/s).
    """
    shares = product.batch % cpu.cores > 0 and product.reads_right_along_rows
    return shares and product.rows % height == 0


def equal_panel_chunks(product: MatmulWorkload, oc_bn: int, cpu: Cpu) -> tuple[int, ...]:
    """The same of equal chunks."""
    blocks = math.ceil(product.columns / oc_bn)
    return tuple(
        sorted({largest_factor(blocks, size) for size in panel_chunks(product, oc_bn, cpu)})
    )


def multiplies_in_place(product: MatmulWorkload, height: int) -> bool:
    """Whether panels are read where they lie: whole tiles of rows, and few of them.

    Each row of the right matrix is on a page of its own, of which L1 translates some 64.
    """
    few = product.rows <= MOST_TILES * height and product.inner <= MOST_PAGES
    return few and product.rows % height == 0 and product.reads_right_along_rows


def panel_chunks(product: MatmulWorkload, oc_bn: int, cpu: Cpu) -> tuple[int, ...]:
    """Panels of a chunk: what gives each core 1, 2 or 4 chunks of all products."""
    blocks = math.ceil(product.columns / oc_bn)
    shares = (product.batch * blocks / (cpu.cores * share) for share in (1, 2, 4))
    return tuple(sorted({min(blocks, max(1, math.ceil(share))) for share in shares}))
