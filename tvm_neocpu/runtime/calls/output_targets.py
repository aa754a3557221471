"""Arrays of the caller that a network's outputs go to, and whether the network writes them itself.

The compiled function writes into an array that is contiguous, aligned and of the output's own shape
and overlaps nothing else that the run reads or writes. Any other array gets a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.errors import ShapeError, first_line
from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.runtime.calls.functions import Function
from tvm_neocpu.runtime.calls.inputs import check
from tvm_neocpu.runtime.ffi.arrays import Extent, address
from tvm_neocpu.runtime.ffi.tensors import as_array, is_tensor
from tvm_neocpu.runtime.files.module_info import TensorInfo

Array = NDArray[Any]


class Target(NamedTuple):
    """The array for an output. ``tensor`` is over the same memory if generated code can write it.

    ``direct`` refuses a run that would have to copy. ``extent`` is where a tensor's memory is.
    """

    array: Array
    tensor: Any | None
    direct: bool = False
    extent: Extent = (0, 0)


# Targets by the number of their output.
Targets = Mapping[int, Target]


def target_of(
    info: TensorInfo, out: Any, direct: bool, tensor_over: Callable[[Array], Any | None]
) -> Target:
    """An array of NumPy, or of torch and others over CPU memory, for an output.

    Raises ShapeError where it has another shape or type, or cannot be written; with ``direct`` also
    where generated code cannot write it.
    """
    array = _as_array(info, out)
    check(info, array.shape, str(array.dtype), "output")
    if not array.flags.writeable:
        raise ShapeError(f"output {info.name!r} cannot be written to a read-only array")
    if _shares_elements(array):
        raise ShapeError(
            f"output {info.name!r} cannot be written to an array whose elements share memory, such "
            "as one of np.broadcast_to: use output_array()"
        )
    tensor = tensor_over(array)
    if direct and tensor is None:
        raise ShapeError(
            f"output {info.name!r} cannot be written to this array without a copy: its memory must "
            f"be contiguous and aligned to {ALIGNMENT} bytes; use output_array()"
        )
    start = address(array)
    return Target(array, tensor, direct, (start, start + array.nbytes))


def _shares_elements(array: Array) -> bool:
    """Whether two elements may lie at the same place: each stride has to step over all of what the
    smaller ones reach.
    """
    reach = array.itemsize
    steps = [(abs(step), dim) for step, dim in zip(array.strides, array.shape, strict=True)]
    for step, dim in sorted((step, dim) for step, dim in steps if dim > 1):
        if step < reach:
            return array.size > 0
        reach += step * (dim - 1)
    return False


def written_directly(
    function: Function, inputs: Sequence[Extent], targets: Targets
) -> dict[int, Target]:
    """The targets that the function itself can write, by output; ``inputs`` are what it reads.

    Raises ShapeError for another one that has to be written so.
    """
    found: dict[int, Target] = {}
    taken = list(inputs)
    for number, target in targets.items():
        reason = _obstacle(function, number, target, taken)
        if reason is None:
            found[number] = target
            taken.append(target.extent)
        elif target.direct:
            name = function.outputs[number].name
            raise ShapeError(f"output {name!r} cannot be written without a copy: {reason}")
    return found


def _obstacle(
    function: Function, number: int, target: Target, taken: Sequence[Extent]
) -> str | None:
    """Why the function cannot write the target itself; ``None`` if it can."""
    entry = function.entry
    if number not in entry.written:
        return "the network does not compute it into memory of its own (a view, an input, a weight)"
    if target.tensor is None:
        return "its array is not contiguous or not aligned"
    if target.array.shape != function.outputs[number].shape:
        shape = function.outputs[number].shape_text
        return f"it is {shape}, and {list(target.array.shape)} is bound to it"
    start, end = target.extent
    if any(low < end and start < high for low, high in taken):
        return "its array overlaps an input's or another output's"
    return None


def _as_array(info: TensorInfo, out: Any) -> Array:
    if isinstance(out, np.ndarray):
        return out
    if is_tensor(out):
        return as_array(out)
    try:
        array = np.from_dlpack(out)
        if not array.flags.writeable and hasattr(out, "__array__"):  # NumPy up to 2.3
            other = np.asarray(out)
            return other if other.ctypes.data == array.ctypes.data else array
        return array
    except Exception as error:  # whatever a foreign array raises is the reason
        reason = first_line(error)
        raise ShapeError(f"output {info.name!r} cannot be written as an array: {reason}") from error
