"""What a config of the bf16 dense template means: the integer one's words, of pairs of bf16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm import geometry as gemm
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseGeometry
from tvm_neocpu.topi.math.bf16_products import ELEMENTS
from tvm_neocpu.topi.math.half_precision import BITS


@dataclass(frozen=True, order=True)
class Bf16DenseConfig(GemmConfig):
    """The tiles of a matrix product; a step multiplies one word of two features."""

    template: ClassVar[str] = "dense_bf16"

    dot: ClassVar[int] = ELEMENTS
    signed: ClassVar[bool] = False


@dataclass(frozen=True)
class Bf16DenseGeometry(IntegerDenseGeometry):
    """The extents that template, space and cost share."""

    config: Bf16DenseConfig  # type: ignore[assignment]

    @property
    def data_type(self) -> str:
        """The type of the elements of a word of data: their bits."""
        return BITS

    @property
    def copies(self) -> bool:
        """The template always reads a copy of its rows: the rounded one."""
        return True


def misfit(dense: DenseWorkload, config: Bf16DenseConfig) -> str | None:
    """Why a config from a log cannot compute the layer; ``None`` where it can."""
    return gemm.misfit(dense, config)
