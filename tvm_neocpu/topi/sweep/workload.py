"""The workload of a sweep: a call without a template, in the layout in which it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm_neocpu.core.network.conv_graph import Shape4, Sweep
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Operand, Workload
from tvm_neocpu.core.types import FP32, Types, uniform


@dataclass(frozen=True, order=True)
class SweepWorkload(Workload):
    """Tensors read and one written, all stored in ``block`` channels; a block of 0 is plain NCHW.

    ``kind``, ``inputs``, ``output`` and ``taps`` are those of a
    :class:`~tvm_neocpu.core.network.conv_graph.Sweep`.
    """

    kind: str
    inputs: tuple[Shape4, ...]
    output: Shape4
    taps: int
    block: int
    types: Types = FP32

    @classmethod
    def of(cls, sweep: Sweep, layout: Layout) -> SweepWorkload:
        """The sweep in a layout; a block of one channel is stored as plain NCHW is."""
        block = layout.block if layout.block > 1 else 0
        types = uniform(sweep.dtype)
        return cls(sweep.kind.value, sweep.inputs, sweep.output, sweep.taps, block, types)

    @property
    def flops(self) -> int:
        """One for each element read by a window or a sum; copies have none."""
        return self.reads if self.kind != "move" else 0

    @property
    def reads(self) -> int:
        """Elements that are loaded in all: several times, where windows overlap."""
        return prod(self.output) * self.taps

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(
            Operand(f"x{place}", shape, self.types.data) for place, shape in enumerate(self.inputs)
        )

    @property
    def out_shape(self) -> Shape4:
        return self.output

    def args(self) -> list[Any]:
        tensors = [["TENSOR", list(shape), self.types.data] for shape in self.inputs]
        result = ["TENSOR", list(self.output), self.types.data]
        return [self.kind, tensors, result, self.taps, str(Layout(self.block))]

    def __str__(self) -> str:
        read = " + ".join(_text(shape) for shape in self.inputs)
        taps = f" of {self.taps}" if self.taps > 1 else ""
        text = f"{self.kind}{taps} {read} -> {_text(self.output)} {Layout(self.block)}"
        return text if self.types == FP32 else f"{text} {self.types}"


def _text(shape: Shape4) -> str:
    return "x".join(str(extent) for extent in shape[1:])
