"""Do the bodies of loops and branches take and give as many tensors as their nodes do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.nodes import STANDARD, nested_graphs, told

# What a body takes, and what it gives at least.
Arity = tuple[int, int]


def check_bodies(node: onnx.NodeProto, opset: int, model: str) -> None:
    """Raise ModelFileError for a body that the node cannot run."""
    arity_of = _ARITIES.get(node.op_type) if node.domain in STANDARD else None
    if arity_of is None:
        return
    takes, gives = arity_of(node, opset)
    for body in nested_graphs(node):
        where = f"{model} is broken: {told(node)}"
        if len(body.input) != takes:
            raise ModelFileError(f"{where}: its body has {len(body.input)} inputs, not {takes}")
        if len(body.output) < gives:
            raise ModelFileError(
                f"{where}: its body has {len(body.output)} outputs; the node needs {gives}"
            )


def _loop(node: onnx.NodeProto, opset: int) -> Arity:
    """Trip and condition go in, the condition comes out; then carried values, then rows."""
    carried = max(0, len(node.input) - 2)
    return 2 + carried, 1 + max(carried, len(node.output))


def _scan(node: onnx.NodeProto, opset: int) -> Arity:
    """Opset 8 has the lengths of the sequences before the others."""
    lengths = 1 if opset < 9 else 0
    return len(node.input) - lengths, len(node.output)


def _if(node: onnx.NodeProto, opset: int) -> Arity:
    return 0, len(node.output)


_ARITIES: Mapping[str, Callable[[onnx.NodeProto, int], Arity]] = {
    "Loop": _loop,
    "Scan": _scan,
    "If": _if,
}
