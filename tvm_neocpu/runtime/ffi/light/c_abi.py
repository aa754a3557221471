"""The part of libtvm_ffi's C interface that running a network needs (``tvm/ffi/c_api.h``).

Structures and their offsets are those of its version 0.1. Handles are addresses; who gets one owns
a reference, which `release` gives back.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tvm_neocpu.runtime.ffi import ffi_on_demand

# Versions whose interface this is.
_VERSION = (0, 1)

# `TVMFFITypeIndex`: what a value is.
NONE, INT, BOOL, C_STRING, SMALL_STRING = 0, 1, 2, 8, 11
OBJECTS = 64  # from here on values are handles
STRING, FUNCTION, TENSOR, ARRAY, MODULE = 65, 68, 70, 71, 73

# `TVMFFIAny`: type, length of a small string, eight bytes.
ANY = struct.Struct("=iIq")
# Behind an object's header: a string's or an error's `TVMFFIByteArray`s, a tensor's `DLTensor`.
_HEADER = 24
_TEXT = struct.Struct("=QQ")
_ERROR = struct.Struct("=QQQQ")  # kind, message
# Where a `DLTensor`, with which a `DLManagedTensor` begins, has its type.
_TYPE_AT = 20


# A `TVMFFIAny`: type, length of a small string, and its eight bytes as a number.
Value = tuple[int, int, int]


class TensorFields(NamedTuple):
    """What a tensor is: address of its first byte, shape, and TVM's name of its type."""

    address: int
    shape: tuple[int, ...]
    dtype: str


class _Any(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("length", ctypes.c_uint32),
        ("content", ctypes.c_int64),
    )


class _Tensor(ctypes.Structure):
    """`DLTensor`; its type is seen as one number."""

    _fields_ = (
        ("address", ctypes.c_uint64),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.c_uint64),
        ("strides", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
    )


class _ByteArray(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


@cache
def is_available() -> bool:
    """Whether libtvm_ffi is where its wheels have it, and of a known version."""
    path = ffi_on_demand.library_path()
    if path is None:
        return False
    version = (ctypes.c_uint32 * 3)()
    try:
        ctypes.CDLL(path).TVMFFIGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return False
    return tuple(version)[:2] == _VERSION


class _Interface:
    """The functions, with the types of their arguments.

    A call of a network lets other threads of Python run; the others take no time.
    """

    def __init__(self) -> None:
        path = ffi_on_demand.library_path()
        assert path is not None, "is_available() says no"
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        runs, quick = ctypes.CDLL(path, ctypes.RTLD_GLOBAL), ctypes.PyDLL(path)
        self.call = runs.TVMFFIFunctionCall
        self.call.argtypes = (pointer, pointer, number, pointer)
        self.get_global = quick.TVMFFIFunctionGetGlobal
        self.get_global.argtypes = (pointer, pointer)
        self.release = quick.TVMFFIObjectDecRef
        self.release.argtypes = (pointer,)
        self.take_error = quick.TVMFFIErrorMoveFromRaised
        self.take_error.argtypes = (pointer,)
        self.take_error.restype = None
        self.take_tensor = quick.TVMFFITensorFromDLPack
        self.take_tensor.argtypes = (pointer, number, number, pointer)
        self.type_named = quick.TVMFFIDataTypeFromString
        self.type_named.argtypes = (pointer, pointer)
        self.name_of_type = quick.TVMFFIDataTypeToString
        self.name_of_type.argtypes = (pointer, pointer)
        # The attributes of `ctypes.pythonapi` are everybody's: another package may give them types.
        capsule, python = (ctypes.py_object, ctypes.c_char_p), ctypes.pythonapi
        self.content_of = ctypes.PYFUNCTYPE(pointer, *capsule)(("PyCapsule_GetPointer", python))
        self.rename = ctypes.PYFUNCTYPE(number, *capsule)(("PyCapsule_SetName", python))


@cache
def _interface() -> _Interface:
    return _Interface()


def call(function: int, arguments: bytes, count: int) -> Value:
    """Call a function with ``count`` packed `ANY`. Raises what it raises, as Python's own class."""
    result = _Any()
    if _interface().call(function, arguments, count, ctypes.byref(result)):
        raise _raised()
    return result.kind, result.length, result.content


class PreparedCall:
    """A function of tensors whose arguments stay where they are from call to call, so that one
    call has to be over before the next.
    """

    __slots__ = ("_call", "_content", "_function", "_places", "_result", "_size")

    def __init__(self, function: int, arguments: bytes) -> None:
        """``arguments`` are packed `ANY`; `run` replaces the handles of the first."""
        self._size = len(arguments) // ANY.size
        self._content = (ctypes.c_int64 * (2 * self._size)).from_buffer_copy(arguments)
        self._result = _Any()
        self._function, self._call = function, _interface().call
        self._places = ctypes.addressof(self._content), ctypes.addressof(self._result)

    def run(self, handles: Sequence[int]) -> Value:
        """Call it, with these as its first arguments."""
        for number, handle in enumerate(handles):
            self._content[2 * number + 1] = handle
        result = self._result
        result.kind = result.length = result.content = 0
        arguments, place = self._places
        if self._call(self._function, arguments, self._size, place):
            raise _raised()
        return result.kind, result.length, result.content


def global_function(name: str) -> int | None:
    """The handle of a function that a library registered; ``None`` where there is none."""
    text = name.encode()
    found = ctypes.c_void_p()
    _check(_interface().get_global(ctypes.byref(_ByteArray(text, len(text))), ctypes.byref(found)))
    return found.value


def release(handle: int) -> None:
    """Give an object's reference back."""
    _interface().release(handle)


def c_string(text: str) -> ctypes.Array[ctypes.c_char]:
    """A text as C has it; it lives as long as what this returns."""
    return ctypes.create_string_buffer(text.encode())


def address_of(memory: ctypes.Array[ctypes.c_char]) -> int:
    """Where it begins."""
    return ctypes.addressof(memory)


def text_of(value: Value) -> str:
    """A string's text; it is released if it is an object."""
    kind, length, content = value
    if kind == SMALL_STRING:
        return content.to_bytes(8, "little", signed=True)[:length].decode()
    place, size = _TEXT.unpack(_behind_header(content, _TEXT.size))
    text = ctypes.string_at(place, size).decode()
    release(content)
    return text


def tensor_fields(handle: int) -> TensorFields:
    """What a tensor in CPU memory is."""
    found = _Tensor.from_address(handle + _HEADER)
    rank = found.rank
    shape = tuple(_extents(rank).from_address(found.shape)) if rank else ()
    return TensorFields(found.address + found.offset, shape, _type_name(found.dtype))


@cache
def _extents(rank: int) -> type[ctypes.Array[ctypes.c_int64]]:
    return ctypes.c_int64 * rank


# Names of DLPack's capsules, before and after their content is taken; these outlive any capsule.
_FULL, _EMPTY = b"dltensor", b"used_dltensor"


def tensor_of(capsule: object, alignment: int, dtype: str | None = None) -> tuple[int, int] | None:
    """A tensor over a DLPack capsule's memory, which it keeps alive: its handle and its address;
    ``None`` for memory that is not aligned to so many bytes.

    ``dtype`` is what its elements are, where the capsule calls them numbers of the same size.
    """
    interface = _interface()
    managed = interface.content_of(capsule, _FULL)
    address = ctypes.c_uint64.from_address(managed).value
    if address % alignment:
        return None
    if dtype is not None:
        ctypes.c_uint32.from_address(managed + _TYPE_AT).value = _type_number(dtype)
    found = ctypes.c_void_p()
    _check(interface.take_tensor(managed, 0, 0, ctypes.byref(found)))
    interface.rename(capsule, _EMPTY)
    assert found.value is not None, "TVM made no tensor and raised no error"
    return found.value, address


@cache
def _type_name(number: int) -> str:
    """TVM's name of a `DLDataType`, seen as one number."""
    result = _Any()
    kind = ctypes.c_uint32(number)
    _check(_interface().name_of_type(ctypes.byref(kind), ctypes.byref(result)))
    return text_of((result.kind, result.length, result.content))


@cache
def _type_number(name: str) -> int:
    text = name.encode()
    found = ctypes.c_uint32()
    _check(_interface().type_named(ctypes.byref(_ByteArray(text, len(text))), ctypes.byref(found)))
    return found.value


def _behind_header(handle: int, size: int) -> bytes:
    return ctypes.string_at(handle + _HEADER, size)


def _check(code: int) -> None:
    if code:
        raise _raised()


def _raised() -> Exception:
    """The error that the last call of this thread left."""
    import builtins

    held = ctypes.c_void_p()
    _interface().take_error(ctypes.byref(held))
    if held.value is None:
        return RuntimeError("TVM failed and said not why")
    kind_at, kind_size, text_at, text_size = _ERROR.unpack(_behind_header(held.value, _ERROR.size))
    kind = ctypes.string_at(kind_at, kind_size).decode()
    text = ctypes.string_at(text_at, text_size).decode(errors="replace")
    release(held.value)
    known = getattr(builtins, kind, None)
    is_error = isinstance(known, type) and issubclass(known, Exception)
    return known(text) if is_error else RuntimeError(text)
