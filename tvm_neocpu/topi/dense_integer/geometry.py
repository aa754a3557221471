"""What a config of the integer dense template means: the matrix product's tiles, in words.

A word is 32 bits of neighbouring input features, as in :mod:`..conv2d_integer.geometry`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.topi.conv2d_integer.geometry import Corrections, data_type_of, misfit_of_words
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm import geometry as gemm
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig, GemmGeometry
from tvm_neocpu.topi.gemm.tiles import Tiles


@dataclass(frozen=True, order=True)
class IntegerDenseConfig(GemmConfig):
    """The tiles of a matrix product, and ``dot``, the elements of a word.

    ``signed``: the bytes of words are shifted, as in :mod:`..conv2d_integer.geometry`.
    """

    template: ClassVar[str] = "dense_int"

    dot: int = 4
    signed: bool = False


@dataclass(frozen=True)
class IntegerDenseGeometry(GemmGeometry):
    """The extents that template, space and cost share."""

    config: IntegerDenseConfig

    @property
    def data_type(self) -> str:
        """The type of the elements of a word of data."""
        return data_type_of(self.config.dot, self.config.signed)

    @property
    def words(self) -> int:
        """Words of a row; zero weights stand against what fills the last one."""
        return math.ceil(self.dense.in_features / self.config.dot)

    @cached_property
    def tiles(self) -> Tiles:
        """Those of rows of words."""
        return replace(super().tiles, inner=self.words)

    @property
    def copies(self) -> bool:
        """Whether rows are copied: to lie apart, to be widened, or filled up."""
        is_whole = self.dense.in_features % self.config.dot == 0
        return super().copies or not is_whole or self.data_type != self.dense.types.data

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight, in words: (ceil(O/oc_bn), words, oc_bn), corrections behind it."""
        panels = self.tiles.blocks + self.corrections.panels
        return (panels, self.words, self.config.oc_bn)

    @property
    def corrections(self) -> Corrections:
        """Their place in the packed weight; they take no panel unless the data are signed."""
        return Corrections(self.tiles.blocks, (self.words,), self.config.signed)


def misfit(dense: DenseWorkload, config: IntegerDenseConfig) -> str | None:
    """Why a config from a log cannot compute the layer; ``None`` where it can."""
    return misfit_of_words(dense.types, config.dot, config.signed) or gemm.misfit(dense, config)
