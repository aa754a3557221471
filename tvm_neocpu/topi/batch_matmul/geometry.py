"""What a config of the batched product means: its tiles, the panels and rows it copies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.gemm.tiles import Tiles, misfit_of_tiles


@dataclass(frozen=True, order=True)
class MatmulConfig:
    """Products in register tiles of ``reg_n`` rows x ``oc_bn`` columns.

    A chunk covers ``tiles`` tiles of rows of one product. Panels of the right matrix are packed by
    each chunk just before it multiplies them; ``shared``: all of them in a pass before the product.
    ``copies``: whether rows of the left matrix are copied first.

    ``in_place``: panels are read where they lie, and a chunk covers ``tiles`` panels and all rows.
    Only a last panel that is not full is packed, before the product.

    ``by_panels``: such a chunk packs its panels itself. No core writes what another one reads.
    """

    template: ClassVar[str] = "batch_matmul_pack"

    oc_bn: int
    reg_n: int
    tiles: int = 1
    shared: bool = False
    copies: bool = False
    in_place: bool = False
    by_panels: bool = False

    @property
    def cuts_columns(self) -> bool:
        """Whether a chunk covers all rows."""
        return self.in_place or self.by_panels


@dataclass(frozen=True)
class MatmulGeometry:
    """The extents that template, space and cost share."""

    product: MatmulWorkload
    config: MatmulConfig

    @cached_property
    def tiles(self) -> Tiles:
        product, config = self.product, self.config
        sizes = product.rows, product.inner, product.columns
        every = math.ceil(product.rows / min(config.reg_n, product.rows))
        tiles = every if config.cuts_columns else config.tiles
        return Tiles(*sizes, config.oc_bn, config.reg_n, tiles)

    @property
    def copies(self) -> bool:
        """Whether the template copies rows of the left matrix."""
        return self.config.copies or self.tiles.overhangs

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.product.batch * (self.panel_chunks or self.tiles.row_chunks)

    @property
    def panel_chunks(self) -> int:
        """Chunks of panels of a product; 0 where a chunk covers all of them."""
        cuts = self.config.cuts_columns
        return math.ceil(self.tiles.blocks / self.config.tiles) if cuts else 0

    @property
    def computed_blocks(self) -> int:
        """Panels, and those of zeros that the last chunk has behind them."""
        return self.panel_chunks * self.config.tiles or self.tiles.blocks

    @property
    def whole_panels(self) -> int:
        """Panels of a product that are full."""
        return self.product.columns // self.config.oc_bn

    @property
    def times_packed(self) -> int:
        """How often a panel is packed."""
        if self.config.in_place:
            return 0
        return 1 if self.config.shared or self.config.by_panels else self.tiles.row_chunks

    @property
    def panels_shape(self) -> tuple[int, ...]:
        """The packed right matrices: (batch, ceil(N/oc_bn), K, oc_bn)."""
        return (self.product.batch, self.tiles.blocks, self.product.inner, self.config.oc_bn)


def misfit(product: MatmulWorkload, config: MatmulConfig) -> str | None:
    """Why a config from a log cannot compute the product; ``None`` where it can."""
    if config.in_place and config.by_panels:
        return "its panels are packed and read where they lie"
    if config.cuts_columns and not product.reads_right_along_rows:
        return "its panels do not lie side by side"
    if config.by_panels and MatmulGeometry(product, config).tiles.blocks % config.tiles:
        return "its last chunk is not full"
    return misfit_of_tiles(config.oc_bn, config.reg_n, config.tiles)
