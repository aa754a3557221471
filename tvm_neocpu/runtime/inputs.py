"""The inputs of one module: memory of its own, or the caller's, each checked."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from tvm_neocpu.core.arena import ALIGNMENT
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.runtime.module_info import TensorInfo

Key = str | int


class Inputs:
    """What the next run reads: ``tensors``, in the order of ``infos``.

    An input is zero until it is set; `take_unset` lists those that never were. Not safe from
    several threads: the caller holds a lock.
    """

    def __init__(self, infos: Sequence[TensorInfo], device: Any) -> None:
        self.infos = infos
        self._buffers = [_zeros(info, device) for info in infos]
        self._views = [np.from_dlpack(buffer) for buffer in self._buffers]
        self.tensors = list(self._buffers)
        self._unset = set(range(len(infos)))

    def index(self, key: Key) -> int:
        """The number of an input. Raises ShapeError for a name or number that is not there."""
        return find(key, self.infos, "input")

    def copy_in(self, index: int, value: Any) -> None:
        """Copy a tensor, or anything NumPy reads, into the module's own memory.

        Raises ShapeError on a wrong shape or dtype.
        """
        info = self.infos[index]
        if isinstance(value, tvm.runtime.Tensor):
            _check(info, tuple(value.shape), str(value.dtype))
            value.copyto(self._buffers[index])
        else:
            array = np.asarray(value)
            _check(info, array.shape, str(array.dtype))
            np.copyto(self._views[index], array)
        self._bind(index, self._buffers[index])

    def share(self, index: int, value: Any) -> None:
        """Read the caller's memory from now on; raises ShapeError if it cannot be shared."""
        info = self.infos[index]
        if isinstance(value, tvm.runtime.Tensor):  # TVM makes none that is strided or misaligned
            _check(info, tuple(value.shape), str(value.dtype))
        else:
            array = np.asarray(value)
            _check(info, array.shape, str(array.dtype))
            value = _shared(info, array)
        self._bind(index, value)

    def own(self, index: int) -> NDArray[Any]:
        """The module's own memory for an input, to be written by the caller."""
        self._bind(index, self._buffers[index])
        return self._views[index]

    def take_unset(self) -> list[str]:
        """Names of the inputs that were never set; a second call lists none of them again."""
        names = [self.infos[index].name for index in sorted(self._unset)]
        self._unset.clear()
        return names

    def _bind(self, index: int, tensor: tvm.runtime.Tensor) -> None:
        self.tensors[index] = tensor
        self._unset.discard(index)


def find(key: Key, infos: Sequence[TensorInfo], kind: str) -> int:
    """The number of a tensor, by its name or number; raises ShapeError, which lists them all."""
    if isinstance(key, str):
        for number, info in enumerate(infos):
            if info.name == key:
                return number
    elif isinstance(key, Integral) and 0 <= key < len(infos):
        return int(key)
    known = ", ".join(map(str, infos))
    raise ShapeError(f"the network has no {kind} {key!r}; it has {known}")


def _check(info: TensorInfo, shape: tuple[int, ...], dtype: str) -> None:
    if tuple(shape) != info.shape:
        raise ShapeError(f"input {info.name!r} is {list(info.shape)}, not {list(shape)}")
    if dtype != info.dtype:
        raise ShapeError(f"input {info.name!r} is {info.dtype}, not {dtype}")


def _shared(info: TensorInfo, array: NDArray[Any]) -> tvm.runtime.Tensor:
    """The array as a TVM tensor over the same memory."""
    aligned = array.ctypes.data % ALIGNMENT == 0
    if not (aligned and array.flags.c_contiguous and array.flags.writeable):
        raise ShapeError(
            f"input {info.name!r} cannot share this array: its memory must be writeable, "
            f"contiguous and aligned to {ALIGNMENT} bytes; use input_array() or set_input()"
        )
    return tvm.runtime.from_dlpack(array)


def _zeros(info: TensorInfo, device: Any) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.zeros(info.shape, info.dtype), device=device)
