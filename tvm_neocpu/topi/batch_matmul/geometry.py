"""What a config of the batched product means: its tiles, the panels and rows it copies."""

from __future__ import annotations

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
    """

    template: ClassVar[str] = "batch_matmul_pack"

    oc_bn: int
    reg_n: int
    tiles: int = 1
    shared: bool = False
    copies: bool = False


@dataclass(frozen=True)
class MatmulGeometry:
    """The extents that template, space and cost share."""

    product: MatmulWorkload
    config: MatmulConfig

    @cached_property
    def tiles(self) -> Tiles:
        product, config = self.product, self.config
        sizes = product.rows, product.inner, product.columns
        return Tiles(*sizes, config.oc_bn, config.reg_n, config.tiles)

    @property
    def copies(self) -> bool:
        """Whether the template copies rows of the left matrix."""
        return self.config.copies or self.tiles.overhangs

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.product.batch * self.tiles.row_chunks

    @property
    def times_packed(self) -> int:
        """How often a panel is packed."""
        return 1 if self.config.shared else self.tiles.row_chunks

    @property
    def panels_shape(self) -> tuple[int, ...]:
        """The packed right matrices: (batch, ceil(N/oc_bn), K, oc_bn)."""
        return (self.product.batch, self.tiles.blocks, self.product.inner, self.config.oc_bn)


def misfit(product: MatmulWorkload, config: MatmulConfig) -> str | None:
    """Why a config from a log cannot compute the product; ``None`` where it can."""
    return misfit_of_tiles(config.oc_bn, config.reg_n, config.tiles)
