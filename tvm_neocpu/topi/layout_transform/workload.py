"""The workload of a layout transform between NCHW and NCHW[x]c."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Operand, Shape, Workload
from tvm_neocpu.core.types import FP32, Types, item_bytes

Shape4 = tuple[int, int, int, int]


@dataclass(frozen=True, order=True)
class TransformWorkload(Workload):
    """A logical (N, C, H, W) tensor stored anew: from blocks of ``before`` to ``after`` channels.

    A block of 0 is plain NCHW.
    """

    batch: int
    channels: int
    height: int
    width: int
    before: int
    after: int
    types: Types = FP32

    @property
    def flops(self) -> int:
        """None: it moves bytes."""
        return 0

    @property
    def in_shape(self) -> Shape4:
        """The logical shape, of the result too."""
        return (self.batch, self.channels, self.height, self.width)

    @property
    def operands(self) -> tuple[Operand, ...]:
        stored = Layout(self.before).shape_of(self.in_shape)
        return (Operand("data", stored, self.types.data),)

    @property
    def min_bytes(self) -> int:
        """Bytes read and written in all."""
        return 2 * prod(self.in_shape) * item_bytes(self.types.data)

    @property
    def out_shape(self) -> Shape:
        return Layout(self.after).shape_of(self.in_shape)

    @property
    def fits(self) -> bool:
        """Whether both blocks divide the channels."""
        return all(Layout(block).fits(self.channels) for block in (self.before, self.after))

    @property
    def is_free(self) -> bool:
        """Whether both layouts store the tensor in the same order."""
        same = max(self.before, 1) == max(self.after, 1)
        return same or self.height * self.width == 1

    def args(self) -> list[Any]:
        """The argument list of AutoTVM's graph-tuner ``layout_transform`` tasks, by layout name."""
        names = [str(Layout(block)) for block in (self.before, self.after)]
        return [["TENSOR", list(self.in_shape), self.types.data], *names]

    def __str__(self) -> str:
        _, before, after = self.args()
        text = f"{self.channels}x{self.height}x{self.width} {before}->{after}"
        return text if self.types == FP32 else f"{text} {self.types}"
