"""The workload of a dense layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import FP32, Types


@dataclass(frozen=True, order=True)
class DenseWorkload(Workload):
    """``Y[batch, out] = sum over in of X[batch, in] * W[in, out]``."""

    batch: int
    in_features: int
    out_features: int
    types: Types = FP32

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.in_features * self.out_features

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The weight as ``matmul`` takes it: (in, out)."""
        data = (self.batch, self.in_features)
        weight = (self.in_features, self.out_features)
        return (
            Operand("data", data, self.types.data),
            Operand("weight", weight, self.types.weight, Role.WEIGHT),
        )

    @property
    def out_shape(self) -> tuple[int, int]:
        return (self.batch, self.out_features)

    def args(self) -> list[Any]:
        """The argument list of an AutoTVM ``dense_pack`` task, whose weight is (out, in)."""
        data = ["TENSOR", [self.batch, self.in_features], self.types.data]
        weight = ["TENSOR", [self.out_features, self.in_features], self.types.weight]
        return [data, weight, None, self.types.output]

    def __str__(self) -> str:
        text = f"dense {self.batch}x{self.in_features}->{self.out_features}"
        return text if self.types == FP32 else f"{text} {self.types}"
