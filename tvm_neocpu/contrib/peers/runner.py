"""What an engine must offer to be compared, and the network that all of them get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import onnx
from numpy.typing import NDArray

from tvm_neocpu.core.accuracy.precision import FP32
from tvm_neocpu.frontend.reading.at_shapes import at_shapes
from tvm_neocpu.frontend.sample_inputs import sample_inputs
from tvm_neocpu.runtime.calls.timing import time_calls, warm_up

Arrays = Mapping[str, NDArray[Any]]


class Runner(Protocol):
    """A network loaded into an engine, its inputs set."""

    def burst(self, count: int) -> list[float]:
        """Seconds of ``count`` runs in a row, behind some that wake cores and fill caches."""
        ...

    def outputs(self) -> list[NDArray[Any]]:
        """The outputs of the last run."""
        ...


class TimedRuns:
    """``burst`` for engines that can ``run``."""

    def run(self) -> None:
        """Infer once, on the inputs given at the start."""
        raise NotImplementedError

    def burst(self, count: int) -> list[float]:
        """See :class:`Runner`."""
        warm_up(self.run)
        return list(time_calls(self.run, 1, count).results)


@dataclass(frozen=True)
class Network:
    """A model, its static input shapes, and the machine's share to run it on: plain data.

    ``target`` is text, as a user writes it; ``logs`` are applied to our own build. ``precision``
    is what an engine may compute in: ``"fp32"``, or ``"bf16"`` where it can.
    """

    name: str
    model: onnx.ModelProto
    shapes: Mapping[str, tuple[int, ...]]
    threads: int
    target: str = "llvm"
    logs: tuple[Path, ...] = ()
    precision: str = FP32

    @cached_property
    def at_shapes(self) -> onnx.ModelProto:
        """The model, its inputs of these shapes: peers refuse 8 images where a file says 1."""
        return at_shapes(self.model, self.shapes)

    @cached_property
    def content(self) -> bytes:
        """The same as a file has it."""
        return self.at_shapes.SerializeToString()

    @cached_property
    def inputs(self) -> dict[str, NDArray[Any]]:
        """Seeded data for every input: normal values, or small whole numbers."""
        return sample_inputs(self.model, self.shapes)
