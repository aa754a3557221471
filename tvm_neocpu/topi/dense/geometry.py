"""What a config of the packed dense template means for a layer: rows of the batch, blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.topi.dense.workload import DenseWorkload


@dataclass(frozen=True, order=True)
class DenseConfig:
    """Dense packed in blocks of ``oc_bn`` outputs; ``reg_n`` rows of the batch at once.

    ``unroll_k``: how many input features the reduction advances per step. ``streams``: how many
    blocks of outputs a register tile holds; each reads weights of its own, in order.
    """

    template: ClassVar[str] = "dense_pack"

    oc_bn: int
    reg_n: int = 1
    unroll_k: int = 4
    streams: int = 1


@dataclass(frozen=True)
class DenseGeometry:
    """The extents that template, space and cost share."""

    dense: DenseWorkload
    config: DenseConfig

    @property
    def reg_n(self) -> int:
        """Rows of a register tile."""
        return min(self.config.reg_n, self.dense.batch)

    @property
    def row_tiles(self) -> int:
        """Register tiles over the batch; the last one may overhang it."""
        return math.ceil(self.dense.batch / self.reg_n)

    @property
    def rows(self) -> int:
        """Rows computed: those of whole tiles."""
        return self.row_tiles * self.reg_n

    @property
    def out_blocks(self) -> int:
        """Blocks of outputs; the last one is padded where ``oc_bn`` does not divide them."""
        return math.ceil(self.dense.out_features / self.config.oc_bn)

    @property
    def streams(self) -> int:
        """Blocks of a register tile: at most ``streams``, and a factor of all."""
        return largest_factor(self.out_blocks, self.config.streams)

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop: blocks, ``streams`` at a time."""
        return self.out_blocks // self.streams

    @property
    def unroll_k(self) -> int:
        """Input features of a step: at most ``unroll_k``, and a factor of all."""
        return largest_factor(self.dense.in_features, self.config.unroll_k)

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (ceil(O/oc_bn), K, oc_bn)."""
        return (self.out_blocks, self.dense.in_features, self.config.oc_bn)


def misfit(dense: DenseWorkload, config: DenseConfig) -> str | None:
    """Why a config from a log cannot compute the layer; ``None`` where it can."""
    sizes = (config.oc_bn, config.reg_n, config.unroll_k, config.streams)
    return None if min(sizes) >= 1 else "its blocks are empty"
