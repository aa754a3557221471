"""Outputs of two engines, by name, and which of them differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.compare import SMALLEST_SCALE
from tvm_neocpu.core.accuracy.largest_error import largest_error

Arrays = Mapping[str, NDArray[Any]]
# Runs a model on inputs; the outputs are in the order of the model's.
Engine = Callable[[onnx.ModelProto, Arrays], Sequence[NDArray[Any]]]


@dataclass(frozen=True)
class OutputCheck:
    """One output: its largest difference over its largest value. Infinite for another shape."""

    name: str
    shape: tuple[int, ...]
    error: float
    tolerance: float

    @property
    def differs(self) -> bool:
        return not self.error <= self.tolerance


def check_outputs(
    model: onnx.ModelProto, inputs: Arrays, ours: Engine, reference: Engine, tolerance: float
) -> list[OutputCheck]:
    """Every output of the model against the reference's, largest error first."""
    names = [value.name for value in model.graph.output]
    found, wanted = ours(model, inputs), reference(model, inputs)
    checks = [
        OutputCheck(
            name, tuple(other.shape), largest_error([one], [other], SMALLEST_SCALE), tolerance
        )
        for name, one, other in zip(names, found, wanted, strict=True)
    ]
    return sorted(checks, key=lambda check: -check.error)
