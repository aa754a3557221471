"""One network of the zoo: its shapes, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_neocpu.core.errors import ShapeError

from .builder import INPUT_NAME, OUTPUT_NAME, GraphBuilder, Tensor


@dataclass(frozen=True)
class Network:
    """One network: `body` takes the builder and the image and returns the outputs.

    A classifier returns its scores, which become `output` (batch, `classes`). Any other network
    has `classes` None, and several outputs where `body` returns them by name.
    """

    name: str
    description: str  # one line, with the paper
    body: Callable[[GraphBuilder, Tensor], Tensor | Mapping[str, Tensor]]
    image: tuple[int, int, int] = (3, 224, 224)  # channels, height, width
    classes: int | None = 1000
    input_name: str = INPUT_NAME
    output_name: str = OUTPUT_NAME

    def input_shape(self, batch: int = 1) -> tuple[int, int, int, int]:
        """NCHW."""
        return (batch, *self.image)

    def output_shapes(self, batch: int = 1) -> dict[str, tuple[int, ...]]:
        """The shape of every output, by name."""
        outputs = self.sketch(batch).graph.output
        return {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            for value in outputs
        }

    def build(self, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
        """The network as ONNX for a fixed batch; only the seed decides the weights.

        Raises ShapeError for a batch below 1.
        """
        return self._make(batch, np.random.default_rng(seed))

    def sketch(self, batch: int = 1) -> onnx.ModelProto:
        """The same network, its weights without values: to count and to check, not to run."""
        return self._make(batch, None)

    def _make(self, batch: int, rng: np.random.Generator | None) -> onnx.ModelProto:
        if batch < 1:
            raise ShapeError(f"the batch must be 1 or more, not {batch}")
        builder = GraphBuilder(self.name, self.input_shape(batch), rng)
        return builder.finish(self.body(builder, builder.data))
