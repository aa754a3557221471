"""Modules, functions and tensors of TVM over its C interface, as `tvm_ffi` has them in Python.

They have what `runtime/` uses of `tvm_ffi`'s own, by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.runtime.ffi.arrays import numpy_dtype, seen_as_numbers
from tvm_neocpu.runtime.ffi.light import c_abi

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Held:
    """An object of TVM; releases its reference when nothing needs it any more."""

    __slots__ = ("handle",)
    kind = c_abi.OBJECTS

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __del__(self, release: Callable[[int], None] = c_abi.release) -> None:
        if hasattr(self, "handle"):
            release(self.handle)

    def __reduce__(self) -> str:
        """A copy would release a reference that it never took."""
        raise TypeError("objects of TVM are neither pickled nor copied")

    def same_as(self, other: Held) -> bool:
        """Whether both are the same object."""
        return self.handle == other.handle


class Tensor(Held):
    """A tensor in CPU memory."""

    __slots__ = ("__array_interface__", "_address")
    kind = c_abi.TENSOR

    def __init__(self, handle: int, address: int | None = None) -> None:
        """``address`` is where its first byte is, if that is known."""
        self.handle = handle
        self._address = address

    def data_ptr(self) -> int:
        """The address of its first byte."""
        if self._address is None:
            self._address = c_abi.tensor_fields(self.handle).address
        return self._address

    def array(self) -> NDArray[Any]:
        """Its memory as an array, which keeps the tensor alive."""
        self._address, shape, dtype = c_abi.tensor_fields(self.handle)
        kind, text = _kind_of(dtype)
        if 0 in shape:
            return np.empty(shape, kind)
        place = (self._address, False)
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": text, "data": place}
        found = np.asarray(self)
        return found if found.dtype == kind else found.view(kind)


@cache
def _kind_of(dtype: str) -> tuple[np.dtype[Any], str]:
    """NumPy's type of that name, and how its array interface calls it."""
    kind = numpy_dtype(dtype)
    return kind, kind.str


class Function(Held):
    """A function of TVM: takes numbers, texts, objects and lists of them."""

    __slots__ = ()
    kind = c_abi.FUNCTION

    def __call__(self, *arguments: Any) -> Any:
        packed, kept = _packed(arguments)
        result = _object(c_abi.call(self.handle, packed, len(arguments)))
        del kept
        return result

    def followed_by(self, last: Sequence[Tensor]) -> Callable[..., Any]:
        """The function of its first arguments, tensors too; these come behind them.

        It keeps these and its own module alive. One call of it has to be over before the next.
        """
        end = _packed(last)[0]
        prepared: dict[int, c_abi.PreparedCall] = {}

        def call(*first: Tensor, alive: Any = (self, last)) -> Any:
            count = len(first)
            if count not in prepared:
                start = c_abi.ANY.pack(c_abi.TENSOR, 0, 0) * count
                prepared[count] = c_abi.PreparedCall(self.handle, start + end)
            return _object(prepared[count].run([each.handle for each in first]))

        return call

    def over(self, tensors: Sequence[Tensor]) -> Callable[[], None]:
        """The function of no arguments that calls this one with these, and drops its result.

        It keeps them alive. One call of it has to be over before the next.
        """
        prepared = c_abi.PreparedCall(self.handle, _packed(tensors)[0])

        def call(alive: Any = (self, tensors)) -> None:
            kind, _, content = prepared.run(())
            if kind >= c_abi.OBJECTS:
                c_abi.release(content)

        return call


class Module(Held):
    """A module: ``module["main"]`` is a function of it."""

    __slots__ = ()
    kind = c_abi.MODULE

    def __getitem__(self, name: str) -> Function:
        found = global_function("ffi.ModuleGetFunction")(self, name, False)
        if found is None:
            raise AttributeError(f"Module has no function {name!r}")
        function: Function = found
        return function


def load_module(path: str) -> Module:
    """The module in a shared library, whose code leaves the process with its last function."""
    found: Module = global_function("ffi.ModuleLoadFromFile")(path)
    return found


@cache
def global_function(name: str) -> Function:
    """A function that TVM's libraries registered. Raises ValueError where there is none."""
    handle = c_abi.global_function(name)
    if handle is None:
        raise ValueError(f"TVM's runtime has no function {name!r}")
    return Function(handle)


def tensor_over(array: NDArray[Any]) -> Tensor | None:
    """The array as a tensor over the same memory; ``None`` where generated code cannot read it."""
    if not (array.flags.c_contiguous and array.flags.writeable):
        return None
    seen = seen_as_numbers(array)
    try:
        capsule = seen.__dlpack__()
    except (BufferError, RuntimeError, TypeError):  # a type that NumPy's DLPack lacks
        return None
    found = c_abi.tensor_of(capsule, ALIGNMENT, None if seen is array else str(array.dtype))
    return None if found is None else Tensor(*found)


def _packed(arguments: Sequence[Any]) -> tuple[bytes, list[Any]]:
    """The arguments as C has them, and what has to live until the call is over."""
    kept: list[Any] = []
    return b"".join(_argument(each, kept) for each in arguments), kept


def _argument(value: Any, kept: list[Any]) -> bytes:
    if isinstance(value, list):
        value = _array_of(value)
    if isinstance(value, Held):
        kept.append(value)
        return c_abi.ANY.pack(value.kind, 0, value.handle)
    if isinstance(value, str):
        text = c_abi.c_string(value)
        kept.append(text)
        return c_abi.ANY.pack(c_abi.C_STRING, 0, c_abi.address_of(text))
    if isinstance(value, bool):
        return c_abi.ANY.pack(c_abi.BOOL, 0, value)
    return c_abi.ANY.pack(c_abi.INT, 0, value)


class _Array(Held):
    __slots__ = ()
    kind = c_abi.ARRAY


def _array_of(values: Sequence[Any]) -> _Array:
    packed, kept = _packed(values)
    made = c_abi.call(global_function("ffi.Array").handle, packed, len(values))
    del kept
    return _Array(made[2])


def _list_of(handle: int) -> list[Any]:
    array = _Array(handle)
    size, item = global_function("ffi.ArraySize"), global_function("ffi.ArrayGetItem")
    return [item(array, number) for number in range(size(array))]


# What a function's result becomes, by its type; other objects are held as they are.
_RESULTS: dict[int, Callable[[c_abi.Value], Any]] = {
    c_abi.NONE: lambda value: None,
    c_abi.INT: lambda value: value[2],
    c_abi.BOOL: lambda value: bool(value[2]),
    c_abi.SMALL_STRING: c_abi.text_of,
    c_abi.STRING: c_abi.text_of,
    c_abi.FUNCTION: lambda value: Function(value[2]),
    c_abi.TENSOR: lambda value: Tensor(value[2]),
    c_abi.ARRAY: lambda value: _list_of(value[2]),
    c_abi.MODULE: lambda value: Module(value[2]),
}


def _object(value: c_abi.Value) -> Any:
    kind, _, content = value
    if kind == c_abi.TENSOR:  # of most calls
        return Tensor(content)
    if kind in _RESULTS:
        return _RESULTS[kind](value)
    if kind >= c_abi.OBJECTS:
        return Held(content)
    raise TypeError(f"TVM gave a value of type {kind}, which no network does")
