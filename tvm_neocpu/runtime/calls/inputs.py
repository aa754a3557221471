"""The inputs of one module: memory of its own, or the caller's, each checked."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.runtime.ffi.tensors import as_array, is_plain, tensor_over, view_of, zeros
from tvm_neocpu.runtime.files.module_info import TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

Key = str | int


class Inputs:
    """What the next run reads: ``tensors``, in the order of ``infos``.

    ``infos`` say what may be set, ``shapes`` what the inputs are at first. An input is zero until
    it is set; `take_unset` lists those that never were. Not safe from several threads: the caller
    holds a lock.
    """

    def __init__(self, infos: Sequence[TensorInfo], shapes: Sequence[Sequence[int]]) -> None:
        self.infos = infos
        self._buffers: list[tvm_ffi.Tensor] = [None] * len(infos)
        self._views: list[NDArray[Any] | None] = [None] * len(infos)
        for index, shape in enumerate(shapes):
            self._allocate(index, shape)
        self.tensors = list(self._buffers)
        # The shapes of the inputs that were set, ``None`` for one that never was.
        self.given: tuple[tuple[int, ...] | None, ...] = (None,) * len(infos)
        self._unset = set(range(len(infos)))

    def fit_unset(self, shapes: Sequence[Sequence[int]]) -> None:
        """Give the inputs that were never set these shapes."""
        for index, shape in enumerate(shapes):
            if self.given[index] is None:
                self._allocate(index, shape)
                self.tensors[index] = self._buffers[index]

    def index(self, key: Key) -> int:
        """The number of an input. Raises ShapeError for a name or number that is not there."""
        return find(key, self.infos, "input")

    def copy_in(self, index: int, value: Any) -> None:
        """Copy a tensor, or anything NumPy reads, into the module's own memory.

        Raises ShapeError on a wrong shape or dtype.
        """
        info = self.infos[index]
        if isinstance(value, tvm_ffi.Tensor):
            check(info, tuple(value.shape), str(value.dtype))
            self._allocate(index, value.shape)
            np.copyto(as_array(self._buffers[index]), as_array(value))
        else:
            array = np.asarray(value)
            check(info, array.shape, str(array.dtype))
            self._allocate(index, array.shape)
            np.copyto(as_array(self._buffers[index]), array)
        self._bind(index, self._buffers[index])

    def share(self, index: int, value: Any) -> None:
        """Read the caller's memory from now on; raises ShapeError if it cannot be shared."""
        info = self.infos[index]
        self._bind(index, shared(info, value))

    def own(self, index: int, shape: Sequence[int] | None = None) -> NDArray[Any]:
        """The module's own memory for an input, to be written by the caller.

        ``shape`` is what the input is from now on. Raises ShapeError if it may not be that, and for
        a type that NumPy cannot share.
        """
        info = self.infos[index]
        if shape is not None:
            check(info, tuple(shape), info.dtype)
            self._allocate(index, shape)
        view = self._views[index]
        if view is None:
            raise ShapeError(f"NumPy cannot share {info.dtype}; use set_input()")
        self._bind(index, self._buffers[index])
        return view

    def take_unset(self) -> list[str]:
        """Names of the inputs that were never set; a second call lists none of them again."""
        names = [self.infos[index].name for index in sorted(self._unset)]
        self._unset.clear()
        return names

    def _bind(self, index: int, tensor: tvm_ffi.Tensor) -> None:
        self.tensors[index] = tensor
        shape = tuple(map(int, tensor.shape))
        if self.given[index] != shape:
            self.given = (*self.given[:index], shape, *self.given[index + 1 :])
        self._unset.discard(index)

    def _allocate(self, index: int, shape: Sequence[int]) -> None:
        """Memory of that shape for an input; what is there already stays."""
        wanted, buffer = tuple(map(int, shape)), self._buffers[index]
        if buffer is not None and tuple(buffer.shape) == wanted:
            return
        self._buffers[index] = zeros(wanted, self.infos[index].dtype)
        self._views[index] = view_of(self._buffers[index])


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


def check(info: TensorInfo, shape: tuple[int, ...], dtype: str, kind: str = "input") -> None:
    """Raise ShapeError for a tensor that cannot be this input or output."""
    if not info.takes(shape):
        raise ShapeError(f"{kind} {info.name!r} is {info.shape_text}, not {list(shape)}")
    if dtype != info.dtype:
        raise ShapeError(f"{kind} {info.name!r} is {info.dtype}, not {dtype}")


def shared(info: TensorInfo, value: Any) -> tvm_ffi.Tensor:
    """An input's value as a tensor over the same memory.

    ``value`` is a TVM tensor or what NumPy reads without a copy. Raises ShapeError, also where
    generated code cannot read that memory.
    """
    if isinstance(value, tvm_ffi.Tensor):
        check(info, tuple(value.shape), str(value.dtype))
        if is_plain(value):
            return value
    else:
        array = np.asarray(value)
        check(info, array.shape, str(array.dtype))
        tensor = tensor_over(array)
        if tensor is not None:
            return tensor
    raise not_shareable(info)


def not_shareable(info: TensorInfo) -> ShapeError:
    """What to tell somebody whose array generated code cannot read where it is."""
    return ShapeError(
        f"input {info.name!r} cannot share this array: its memory must be writeable, "
        f"contiguous and aligned to {ALIGNMENT} bytes; use input_array() or set_input()"
    )
