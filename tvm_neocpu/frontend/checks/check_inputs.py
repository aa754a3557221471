"""Has a node the inputs that its operator needs?"""

from __future__ import annotations

from functools import cache

import onnx

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.nodes import STANDARD, told

_ANY = 2**31 - 1  # what a schema has for the most of a variadic operator


def check_inputs(node: onnx.NodeProto, opset: int, model: str) -> None:
    """Raise ModelFileError where a node of ONNX's own domain has too few inputs, or too many."""
    bounds = _bounds(node.op_type, opset) if node.domain in STANDARD else None
    if bounds is None:
        return
    least, most, required = bounds
    given, where = len(node.input), f"{model} is broken: {told(node)}"
    if not least <= given <= most:
        text = _text(least, most)
        raise ModelFileError(f"{where} has {given} inputs, not {text}")
    missing = next((place for place in required if not node.input[place]), None)
    if missing is not None:
        raise ModelFileError(f"{where} lacks input {missing}, counted from 0")


def _text(least: int, most: int) -> str:
    if most == _ANY:
        return f"at least {least}"
    return f"{least}" if least == most else f"{least} to {most}"


@cache
def _bounds(operator: str, opset: int) -> tuple[int, int, tuple[int, ...]] | None:
    """The least and the greatest number of inputs, and the places of those that must be there.

    A Loop has two inputs at least, and may omit both by empty names. ``None`` for an operator that
    onnx lacks.
    """
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    required = [at for at, formal in enumerate(schema.inputs) if formal.option == single]
    return schema.min_input, schema.max_input, tuple(required)
