"""Dropout at inference: the data itself, and a mask."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node

# The mask had the data's type before.
_FIRST_OF_BOOLEANS = 10
_FIRST_OF_TRUTH = 12
_DEFAULT_RATIO = 0.5


def dropout(node: Node) -> relax.Expr:
    """The mask is true; below opset 12, which does not say, it is false as ONNX Runtime's is.

    Raises UnsupportedOperatorError for training, which draws random numbers.
    """
    if node.input(2) is not None and _drops(node):
        raise UnsupportedOperatorError("training_mode draws random numbers")
    if node.outputs == 1:
        return node.data
    dtype = "bool" if node.opset >= _FIRST_OF_BOOLEANS else node.dtype
    fill = relax.op.ones_like if node.opset >= _FIRST_OF_TRUTH else relax.op.zeros_like
    return relax.Tuple([node.data, node.emit(fill(node.data, dtype))])


def _drops(node: Node) -> bool:
    trains, ratio = node.known(2), node.known(1)
    if trains is not None and not trains.any():
        return False
    share = _DEFAULT_RATIO if node.input(1) is None else ratio
    return share is None or bool(share)
