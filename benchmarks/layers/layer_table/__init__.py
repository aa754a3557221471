"""The layers that `single_layers.py` times: every kind that networks have, one ONNX model each.

A layer is one node, or the few nodes that a network always has together. Inputs and outputs are
plain NCHW, so that our layout transforms count.
"""

from __future__ import annotations

from collections.abc import Iterator

from .around import layers_around
from .convolutions import convolutions, grouped_convolutions, other_convolutions
from .layer import Layer
from .movement import data_movement, elementwise, resizes
from .reductions import norms_and_rows, pools, products, recurrences


def layers() -> Iterator[Layer]:
    """All of them."""
    yield from convolutions()
    yield from grouped_convolutions()
    yield from other_convolutions()
    yield from pools()
    yield from products()
    yield from recurrences()
    yield from norms_and_rows()
    yield from elementwise()
    yield from data_movement()
    yield from resizes()
    yield from layers_around()


__all__ = ["Layer", "layers"]
