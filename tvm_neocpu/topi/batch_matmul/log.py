"""The batched product in log lines and as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tvm_neocpu.core.errors import LineError, WorkloadTextError
from tvm_neocpu.core.network.workload import Shape
from tvm_neocpu.core.types import Types
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.task_args import read_count, read_tensor

_OPERAND = r"(\d+(?:x\d+)+)(?:@(\d+))?"
_TEXT = re.compile(rf"matmul {_OPERAND} \* {_OPERAND}")


def decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> MatmulWorkload:
    """The inverse of :meth:`MatmulWorkload.args`."""
    if len(args) != 5 or not isinstance(args[4], str):
        raise LineError("its arguments are not a product's")
    (left, left_type), (right, right_type) = read_tensor(args[0]), read_tensor(args[1])
    if not left_type == right_type == args[4]:
        raise LineError(f"mixed types {left_type}, {right_type} -> {args[4]}")
    types = Types(left_type, right_type, args[4], args[4])
    left_axes, right_axes = _axes(args[2]), _axes(args[3])
    product = MatmulWorkload(tuple(left), tuple(right), left_axes, right_axes, types)
    if product.misfit is not None:
        raise LineError(product.misfit)
    return product


def parse(text: str) -> MatmulWorkload | None:
    """``"matmul 12x197x64 * 12x64x197"``."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        return None
    left_sizes, left_axes, right_sizes, right_axes = found.groups()
    left, right = _sizes(left_sizes), _sizes(right_sizes)
    product = MatmulWorkload(left, right, _order(left_axes, left), _order(right_axes, right))
    if product.misfit is not None or 0 in (*product.left, *product.right):
        raise WorkloadTextError(f"{text!r} is no product: {product.misfit or 'it has a size of 0'}")
    return product


def _sizes(text: str) -> Shape:
    return tuple(map(int, text.split("x")))


def _order(text: str | None, shape: Shape) -> tuple[int, ...]:
    """``"0213"``; without a text the axes are in order."""
    return tuple(map(int, text)) if text else tuple(range(len(shape)))


def _axes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise LineError(f"{value!r} are not axes")
    return tuple(read_count(axis, min_value=0) for axis in value)
