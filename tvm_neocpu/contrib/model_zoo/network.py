"""One network of the zoo: its shapes, and how it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_neocpu.core.errors import ShapeError

from .builder import INPUT_NAME, OUTPUT_NAME, GraphBuilder, Tensor


@dataclass(frozen=True)
class Network:
    """One network: `body` takes the builder and the image and returns the class scores."""

    name: str
    description: str  # one line, with the paper
    body: Callable[[GraphBuilder, Tensor], Tensor]
    image: tuple[int, int, int] = (3, 224, 224)  # channels, height, width
    classes: int = 1000
    input_name: str = INPUT_NAME
    output_name: str = OUTPUT_NAME

    def input_shape(self, batch: int = 1) -> tuple[int, int, int, int]:
        """NCHW."""
        return (batch, *self.image)

    def output_shape(self, batch: int = 1) -> tuple[int, int]:
        return (batch, self.classes)

    def build(self, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
        """The network as ONNX for a fixed batch; only the seed decides the weights.

        Raises ShapeError for a batch below 1.
        """
        if batch < 1:
            raise ShapeError(f"the batch must be 1 or more, not {batch}")
        rng = np.random.default_rng(seed)
        builder = GraphBuilder(self.name, self.input_shape(batch), rng)
        return builder.finish(self.body(builder, builder.data))
