"""What a config of the Winograd template means for a convolution: tiles, blocks, chunks, shapes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from types import MappingProxyType
from typing import ClassVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.blocks_of_groups import BlocksOfGroups
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.matrices import WinogradMatrices
from tvm_neocpu.topi.conv2d_winograd.tails import Tail
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv, seen_by_tiles

# Outputs of a tile on each side.
TILES = (2, 3, 4, 6)
# ``reg_m`` of register tiles over one axis of all tiles of a chunk: 7 x 7 are 9 times 5 and 4.
FLAT = 0
# So far ahead of its use a group's weights are asked for.
AHEAD_BYTES = 8 * 1024


@dataclass(frozen=True, order=True)
class WinogradConfig:
    """Winograd over NCHW[x]c in tiles of ``tile`` x ``tile`` outputs (Wang et al. 2020).

    A tile has one row or column where the kernel has one; ``ic_bn == 0`` reads plain NCHW.
    ``reg_m`` x ``reg_n`` transformed tiles are held in registers by the product; if ``reg_m`` is
    :data:`FLAT`, ``reg_n`` tiles in order, from one row into the next. A chunk covers ``th_bn``
    rows of tiles (of one axis also those of several images, which stand below each other then), or
    all of them when ``parallel_oc`` splits the output channels instead: all cores transform the
    input together, before. Each of ``oc_chunks`` chunks of output channels transforms all of it
    for itself.
    """

    template: ClassVar[str] = "conv2d_NCHWc_winograd"

    ic_bn: int
    oc_bn: int
    tile: int
    reg_n: int
    reg_m: int = 1
    th_bn: int = 1
    parallel_oc: bool = False
    oc_chunks: int = 0


@dataclass(frozen=True)
class WinogradGeometry(BlocksOfGroups):
    """The extents that template, space and cost share."""

    conv: ConvWorkload
    config: WinogradConfig

    @cached_property
    def tiled(self) -> TiledConv:
        plain = self.config.ic_bn == 0
        return TiledConv(seen_by_tiles(self.conv, plain), self.config.tile, plain)

    @property
    def is_flat(self) -> bool:
        """Whether the tiles of a chunk are one axis."""
        return self.config.reg_m == FLAT

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across, rounded up so that register tiles divide them.

        One axis of tiles is not rounded: it ends in a narrower register tile.
        """
        (rows, columns), config = self.tiled.tiles, self.config
        if self.is_flat:
            return rows, columns
        return (
            math.ceil(rows / config.reg_m) * config.reg_m,
            math.ceil(columns / config.reg_n) * config.reg_n,
        )

    @property
    def padded_extent(self) -> tuple[int, int]:
        """Input rows and columns that the grid reads."""
        (rows, columns), (down, across) = self.grid, self.tiled.hop
        matrices = self.tiled.matrices
        return (
            (rows - 1) * down + matrices[0].pixels,
            (columns - 1) * across + matrices[1].pixels,
        )

    @property
    def factor_type(self) -> str:
        """The type of what is multiplied: transformed data and weights."""
        return self.conv.types.accumulator

    @property
    def packed_type(self) -> str:
        """The type of transformed data in memory."""
        return self.factor_type

    @property
    def weight_bytes(self) -> int:
        """Of an element of a transformed weight: those of half precision are stored so."""
        return min(item_bytes(self.conv.types.weight), item_bytes(self.factor_type))

    def dot(self, cpu: Cpu) -> DotProduct | None:
        """The instruction that multiplies integers."""
        return None

    @property
    def in_channels(self) -> int:
        """Channels that a product sums over: those of a group."""
        return self.tiled.seen.in_channels // self.conv.groups

    @property
    def packs_by_block(self) -> bool:
        """Whether each block of output channels packs what it reads, and no other block reads it.

        So does a group that is one block: its transformed tiles stay in L1, those of all groups
        would go through L2. A larger group has several blocks, which share what is packed.
        """
        return self.conv.groups > 1 and self.out_blocks == self.conv.groups

    @property
    def packs_apart(self) -> bool:
        """Whether all tiles are packed before any chunk begins, since every chunk reads them."""
        return self.config.parallel_oc and not self.packs_by_block

    @property
    def packed_copies(self) -> int:
        """How often the input is transformed: by each chunk of channels that does so for itself."""
        return max(1, self.config.oc_chunks)

    @property
    def inner_steps(self) -> int:
        """Steps of a product in which it sums over a block."""
        return self.ic_bn

    @property
    def stored_ic_bn(self) -> int:
        """Channels of a block of the packed input as it is transformed and stored."""
        block = self.config.ic_bn or self.tiled.lanes
        return min(block, self.in_channels) if self.conv.groups > 1 else block

    @property
    def transformed_channels(self) -> int:
        """Channels of a block that are transformed.

        A chunk transforms what its products read: 12 channels of a stem in three vectors of 4. A
        pass over the whole image transforms all that is stored: one vector of 16. Both took the
        same time (Zen 5, 3x224x224->64 7x7 s2: 540 us).
        """
        return self.stored_ic_bn if self.config.parallel_oc else self.ic_bn

    @property
    def in_blocks(self) -> int:
        """Blocks of the packed input that a product sums over."""
        return self.in_channels // self.ic_bn

    @property
    def packed_blocks(self) -> int:
        """Blocks of the packed input, of all groups."""
        return self.conv.groups * self.in_blocks

    @property
    def out_blocks(self) -> int:
        """Blocks of output channels that register tiles compute."""
        return self.conv.out_channels // self.oc_bn

    @cached_property
    def chunk_rows(self) -> int:
        """Rows of tiles that a chunk covers: at most ``th_bn``, and a factor of the grid's."""
        return largest_factor(self.grid[0], self.config.th_bn)

    @cached_property
    def images(self) -> int:
        """Images of which a chunk covers all rows, as one axis of tiles: they share the weights."""
        rows = self.grid[0]
        if not self.is_flat or self.config.th_bn < rows:
            return 1
        return largest_factor(self.conv.batch, self.config.th_bn // rows)

    @property
    def batches(self) -> int:
        """Sets of images that chunks cover together."""
        return self.conv.batch // self.images

    @property
    def chunk_tiles(self) -> int:
        """Tiles that a chunk covers."""
        return self.images * self.chunk_rows * self.grid[1]

    @property
    def tails(self) -> tuple[Tail | None, Tail | None]:
        """The last tile down and the last one across, where they take fewer products.

        One axis of tiles has whole tiles only.
        """
        return (None, None) if self.is_flat else self.tiled.tails

    @cached_property
    def needed_tiles(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Tile rows of a chunk that each row of a tile's products takes; columns that each column.

        Only a chunk of all rows takes fewer of them.
        """
        tails = (None if self.row_chunks > 1 else self.tails[0]), self.tails[1]
        extents = self.chunk_rows, self.grid[1]
        sides = zip(self.tiled.matrices, extents, self.tiled.tiles, tails, strict=True)
        down, across = (
            tuple(extent if needed else tiles - 1 for needed in _needed(matrices, tail))
            for matrices, extent, tiles, tail in sides
        )
        return down, across

    @property
    def drops_tiles(self) -> bool:
        """Whether some products take fewer tiles than a chunk has."""
        extents = self.chunk_rows, self.grid[1]
        pairs = zip(self.needed_tiles, extents, strict=True)
        return not self.is_flat and any(min(needed) < extent for needed, extent in pairs)

    @cached_property
    def register_tiles(self) -> tuple[tuple[int, int], ...]:
        """(tiles held in registers, how often) of all products, for a filter's block of outputs."""
        chunks = self.batches * self.row_chunks
        if self.is_flat:
            chunks *= self.tiled.products
            whole, rest = divmod(self.chunk_tiles, self.config.reg_n)
            return ((self.config.reg_n, chunks * whole), *(((rest, chunks),) if rest else ()))
        sizes = self.register_rows, self.config.reg_n
        down, across = (
            _cut_counts(needed, size) for needed, size in zip(self.needed_tiles, sizes, strict=True)
        )
        found: Counter[int] = Counter()
        for (high, rows), (wide, columns) in product(down.items(), across.items()):
            found[high * wide] += rows * columns * chunks
        return tuple(found.items())

    @property
    def axes_of_tiles(self) -> tuple[int, ...]:
        """The extents of the axes of transformed data and products that count tiles."""
        rows, columns = self.grid
        return (self.images * rows * columns,) if self.is_flat else (rows, columns)

    @property
    def ends_narrower(self) -> bool:
        """Whether the last register tile of a chunk is narrower: a loop nest of its own."""
        return self.is_flat and self.chunk_tiles % self.config.reg_n > 0

    @property
    def panels_ahead(self) -> int:
        """Which panel of weights behind the one that is multiplied is asked for.

        Memory answers after some 400 cycles; the panel of a group is multiplied in 30 to 200.
        """
        panel = self.weight_bytes * self.in_channels * self.oc_bn
        return math.ceil(AHEAD_BYTES / panel) if self.packs_by_block else 1

    @property
    def row_chunks(self) -> int:
        return self.grid[0] // self.chunk_rows

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        if self.config.oc_chunks:
            return self.batches * self.config.oc_chunks
        blocks, rows = self.out_blocks, self.row_chunks
        return self.batches * (blocks if self.config.parallel_oc else rows)

    @property
    def register_rows(self) -> int:
        """Rows of a register tile: at most ``reg_m``, and a factor of a chunk's."""
        if self.is_flat:
            return 1
        return largest_factor(self.chunk_rows, self.config.reg_m)

    @property
    def product_shape(self) -> tuple[int, ...]:
        """The products: (N, K/oc_bn, a, b, tile rows and columns, oc_bn).

        Of one axis of tiles it counts those of several images: (N/images, .., tiles, oc_bn).
        """
        down, across = self.tiled.matrices
        alpha = down.products, across.products
        tiles = self.axes_of_tiles
        return (self.batches, self.out_blocks, *alpha, *tiles, self.oc_bn)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The output as it is stored: (N, K/oc_bn, OH, OW, oc_bn)."""
        conv = self.conv
        pixels = conv.out_height, conv.out_width
        return (conv.batch, self.out_blocks // self.groups_written, *pixels, self.config.oc_bn)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (K/oc_bn, a, b, C/ic_bn, ic_bn, oc_bn) for a x b products a tile."""
        products = (matrices.products for matrices in self.tiled.matrices)
        return (self.out_blocks, *products, self.in_blocks, self.inner_steps, self.oc_bn)


def _needed(matrices: WinogradMatrices, tail: Tail | None) -> tuple[bool, ...]:
    """Which products of an axis the last tile takes: all without a tail."""
    return (True,) * matrices.products if tail is None else tail.needed


@lru_cache(maxsize=4096)
def _cut_counts(needed: tuple[int, ...], size: int) -> Mapping[int, int]:
    """How many register tiles of which extent these counts of tiles are, in all."""
    found: Counter[int] = Counter()
    for count in needed:
        whole, rest = divmod(count, size)
        found.update({size: whole, rest: rest > 0})
    return MappingProxyType(+found)


def label(conv: ConvWorkload, config: WinogradConfig) -> str:
    """What people call the algorithm: ``"winograd F(4x4)"``."""
    rows, columns = WinogradGeometry(conv, config).tiled.outputs
    return f"winograd F({rows}x{columns})"
