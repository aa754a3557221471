"""Reading the argument lists of AutoTVM tasks: what operators' decoders share.

Each function raises LineError for what is not of its form; nothing is executed or guessed.
"""

from __future__ import annotations

from typing import Any

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.types import MAX_ELEMENTS, Types, item_bytes, product_types

# A line may say anything, and Winograd's matrices have as many columns as a stride.
MAX_STEP = 2**16


def read_tensor(arg: Any) -> tuple[list[int], str]:
    """(shape, element type) of ``["TENSOR", [1, 3, 224, 224], "float32"]``."""
    if not (isinstance(arg, list) and len(arg) == 3 and arg[0] == "TENSOR"):
        raise LineError(f"{arg!r} is not a tensor")
    _, shape, dtype = arg
    if not (isinstance(shape, list) and isinstance(dtype, str)):
        raise LineError(f"{arg!r} is not a tensor")
    try:
        item_bytes(dtype)
    except ValueError as error:
        raise LineError(str(error)) from None
    return [read_count(size) for size in shape], dtype


def read_data_and_weight(args: list[Any], rank: int) -> tuple[list[int], list[int], Types]:
    """(data shape, weight shape, types) of a task that begins with both tensors.

    AutoTVM ends the list with the output's type; what follows it is ours.
    """
    if len(args) < 2:
        raise LineError("its arguments are not a task's")
    shape, dtype = read_tensor(args[0])
    weight, weight_dtype = read_tensor(args[1])
    if not len(shape) == len(weight) == rank:
        raise LineError(f"tensors of {len(shape)} and {len(weight)} dimensions")
    out_dtype = next((arg for arg in reversed(args[2:]) if isinstance(arg, str)), dtype)
    types = product_types(dtype, weight_dtype, out_dtype)
    if types is None:
        raise LineError(f"mixed types {dtype}, {weight_dtype} -> {out_dtype}")
    return shape, weight, types


def read_count(value: Any, min_value: int = 1, max_value: int = MAX_ELEMENTS) -> int:
    """A whole number that is neither too small nor too large."""
    if type(value) is not int or not min_value <= value <= max_value:
        raise LineError(f"{value!r} is not a size")
    return value


def read_pair(value: Any, min_value: int = 1) -> tuple[int, int]:
    """A pair, or one number for both: strides, dilations or paddings."""
    both = value if isinstance(value, list) else [value, value]
    if len(both) != 2:
        raise LineError(f"{value!r} is not a pair")
    first, second = (read_count(each, min_value, MAX_STEP) for each in both)
    return first, second


def read_padding(value: Any) -> tuple[int, int, int, int]:
    """(top, left, bottom, right), also from (height, width) or one number as AutoTVM allowed."""
    if not (isinstance(value, list) and len(value) == 4):
        top, left = read_pair(value, min_value=0)
        return (top, left, top, left)
    top, left, bottom, right = (read_count(side, 0, MAX_STEP) for side in value)
    return (top, left, bottom, right)
