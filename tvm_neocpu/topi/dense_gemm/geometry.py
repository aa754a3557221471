"""What a config of the dense template for many rows means for a layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.gemm.tiles import Tiles, misfit_of_tiles


@dataclass(frozen=True, order=True)
class GemmConfig:
    """A dense layer of many rows: register tiles of ``reg_n`` rows x ``oc_bn`` outputs.

    A chunk covers ``tiles`` tiles of rows; ``parallel_oc`` splits chunks over blocks of outputs
    too. ``copies``: whether the rows are copied first, so that those of a tile do not share a set
    of the cache; rows that overhang are always copied.
    """

    template: ClassVar[str] = "dense_gemm"

    oc_bn: int
    reg_n: int
    tiles: int = 1
    parallel_oc: bool = False
    copies: bool = False


@dataclass(frozen=True)
class GemmGeometry:
    """The extents that template, space and cost share."""

    dense: DenseWorkload
    config: GemmConfig

    @cached_property
    def tiles(self) -> Tiles:
        dense, config = self.dense, self.config
        return Tiles(
            dense.batch,
            dense.in_features,
            dense.out_features,
            config.oc_bn,
            config.reg_n,
            config.tiles,
        )

    @property
    def copies(self) -> bool:
        """Whether the template copies its rows."""
        return self.config.copies or self.tiles.overhangs

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.tiles.row_chunks * (self.tiles.blocks if self.config.parallel_oc else 1)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (ceil(O/oc_bn), K, oc_bn)."""
        return (self.tiles.blocks, self.dense.in_features, self.config.oc_bn)


def misfit(dense: DenseWorkload, config: GemmConfig) -> str | None:
    """Why a config from a log cannot compute the layer; ``None`` where it can."""
    return misfit_of_tiles(config.oc_bn, config.reg_n, config.tiles)
