"""The workload of a matrix product of two computed tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm_neocpu.core.network.workload import Operand, Shape, Workload
from tvm_neocpu.core.types import FP32, Types


@dataclass(frozen=True, order=True)
class MatmulWorkload(Workload):
    """``Y[.., m, n] = sum over k of L[.., m, k] * R[.., k, n]``.

    ``left`` and ``right`` are the shapes as the tensors lie; transposed by ``left_axes`` and
    ``right_axes`` they are (.., M, K) and (.., K, N). The axes before these broadcast.
    """

    left: Shape
    right: Shape
    left_axes: tuple[int, ...]
    right_axes: tuple[int, ...]
    types: Types = FP32

    @property
    def left_shape(self) -> Shape:
        """(.., M, K)."""
        return tuple(self.left[axis] for axis in self.left_axes)

    @property
    def right_shape(self) -> Shape:
        """(.., K, N)."""
        return tuple(self.right[axis] for axis in self.right_axes)

    @property
    def misfit(self) -> str | None:
        """Why the operands cannot be multiplied; ``None`` where they can."""
        for shape, axes in ((self.left, self.left_axes), (self.right, self.right_axes)):
            if len(shape) < 2 or sorted(axes) != list(range(len(shape))):
                return f"axes {list(axes)} do not transpose a matrix of shape {list(shape)}"
        left, right = self.left_shape, self.right_shape
        if left[-1] != right[-2]:
            return f"{left[-1]} columns do not fit {right[-2]} rows"
        pairs = zip(reversed(left[:-2]), reversed(right[:-2]), strict=False)
        if any(one != other and 1 not in (one, other) for one, other in pairs):
            return f"{list(left[:-2])} and {list(right[:-2])} do not broadcast"
        return None

    @property
    def batch_shape(self) -> Shape:
        left, right = self.left_shape[:-2], self.right_shape[:-2]
        rank = max(len(left), len(right))
        pairs = zip(_aligned(left, rank), _aligned(right, rank), strict=True)
        return tuple(max(pair) for pair in pairs)

    @property
    def batch(self) -> int:
        return prod(self.batch_shape)

    @property
    def rows(self) -> int:
        return self.left_shape[-2]

    @property
    def inner(self) -> int:
        return self.left_shape[-1]

    @property
    def columns(self) -> int:
        return self.right_shape[-1]

    @property
    def row_pitch(self) -> int:
        """Elements between two rows of the left matrix."""
        return prod(self.left[self.left_axes[-2] + 1 :])

    @property
    def reads_left_along_rows(self) -> bool:
        """Whether the elements of a row of the left matrix lie side by side."""
        return self.left_axes[-1] == len(self.left) - 1

    @property
    def reads_right_along_rows(self) -> bool:
        """Whether the elements of a row of the right matrix lie side by side."""
        return self.right_axes[-1] == len(self.right) - 1

    @property
    def turns_right(self) -> bool:
        """Whether the columns of the right matrix lie side by side, as those of keys do."""
        return self.right_axes[-2] == len(self.right) - 1

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("left", self.left, self.types.data),
            Operand("right", self.right, self.types.weight),
        )

    @property
    def out_shape(self) -> Shape:
        return (*self.batch_shape, self.rows, self.columns)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns

    def args(self) -> list[Any]:
        """Both tensors as they lie, and the axes that transpose them; AutoTVM had no such task."""
        return [
            ["TENSOR", list(self.left), self.types.data],
            ["TENSOR", list(self.right), self.types.weight],
            list(self.left_axes),
            list(self.right_axes),
            self.types.output,
        ]

    def __str__(self) -> str:
        """``"matmul 12x197x64 * 12x64x197"``, transposed operands with their axes: ``@0213``."""
        left = _text(self.left, self.left_axes)
        text = f"matmul {left} * {_text(self.right, self.right_axes)}"
        return text if self.types == FP32 else f"{text} {self.types}"


def _aligned(shape: Shape, rank: int) -> Shape:
    return (*[1] * (rank - len(shape)), *shape)


def _text(shape: Shape, axes: tuple[int, ...]) -> str:
    sizes = "x".join(map(str, shape))
    return sizes if axes == tuple(range(len(axes))) else f"{sizes}@{''.join(map(str, axes))}"
