"""What an engine must offer to be compared, and the network that all of them get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_neocpu.target import CompileTarget

Arrays = Mapping[str, NDArray[Any]]


class Runner(Protocol):
    """A network loaded into an engine, its inputs set."""

    def run(self) -> None:
        """Infer once, on the inputs given at the start."""
        ...

    def outputs(self) -> list[NDArray[Any]]:
        """The outputs of the last run."""
        ...


@dataclass(frozen=True)
class Network:
    """A model, its static input shapes, and the machine's share to run it on."""

    name: str
    model: onnx.ModelProto
    shapes: Mapping[str, tuple[int, ...]]
    threads: int
    target: CompileTarget

    @cached_property
    def content(self) -> bytes:
        """The model as a file has it."""
        return self.model.SerializeToString()

    @cached_property
    def inputs(self) -> dict[str, NDArray[Any]]:
        """Seeded data for every input: normal values, or small whole numbers."""
        rng = np.random.default_rng(0)
        types = {value.name: value.type.tensor_type.elem_type for value in self.model.graph.input}
        return {name: _data(rng, types[name], shape) for name, shape in self.shapes.items()}


def _data(rng: np.random.Generator, element: int, shape: tuple[int, ...]) -> NDArray[Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)
