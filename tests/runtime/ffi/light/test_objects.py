"""TVM's objects through its C interface: what goes in comes out, errors are Python's, and nothing
stays alive or dies too early.
"""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from fresh_process import run_script
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tvm_neocpu.runtime.ffi.arrays import aligned_zeros
from tvm_neocpu.runtime.ffi.light.objects import Tensor, global_function, tensor_over

TYPES = ["float32", "float64", "float16", "int8", "uint8", "int64", "bool", "bfloat16"]


def filled(shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    array = aligned_zeros(shape, dtype)
    array[...] = np.arange(array.size).reshape(shape) % 2
    return array


@settings(max_examples=40, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=5).map(tuple), dtype=st.sampled_from(TYPES))
def test_a_tensor_is_its_array(shape: tuple[int, ...], dtype: str) -> None:
    array = filled(shape, dtype)
    tensor = tensor_over(array)
    assert tensor is not None
    seen = tensor.array()
    assert (seen.shape, seen.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(seen.astype("float32"), array.astype("float32"))
    if array.size:
        assert tensor.data_ptr() == array.__array_interface__["data"][0]
        seen[...] = 1  # the same memory
        assert (array == 1).all()


def read_only() -> NDArray[np.generic]:
    array = filled((4, 4), "float32")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [
        read_only(),
        filled((4, 4), "float32")[:, ::2],
        filled((5, 4), "float32").ravel()[1:],
    ],
    ids=["read-only", "strided", "misaligned"],
)
def test_what_code_cannot_read_is_no_tensor(array: NDArray[np.generic]) -> None:
    assert tensor_over(array) is None


def test_memory_lives_as_long_as_it_is_seen() -> None:
    array = filled((8,), "float32")
    gone = weakref.ref(array)
    tensor = tensor_over(array)
    assert tensor is not None
    seen = tensor.array()
    del array, tensor
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(seen, np.arange(8) % 2)
    del seen
    gc.collect()
    assert gone() is None


def test_arguments_and_results() -> None:
    tensor = tensor_over(filled((2,), "float32"))
    made = global_function("ffi.Array")(1, True, "a text", "a text that is longer", tensor, [2, 3])
    assert made[:4] == [1, True, "a text", "a text that is longer"]
    assert isinstance(made[4], Tensor)
    assert made[4].same_as(tensor)
    assert made[5] == [2, 3]


def test_functions_that_are_followed_by_others() -> None:
    one, two, three = (tensor_over(filled((2,), "float32")) for _ in range(3))
    assert one is not None and two is not None and three is not None
    call = global_function("ffi.Array").followed_by([three])
    for first in ([one], [one, two], [two]):
        found = call(*first)
        assert [each.data_ptr() for each in found] == [t.data_ptr() for t in [*first, three]]


def test_errors_are_pythons_own() -> None:
    with pytest.raises(ValueError, match=r"no function 'no\.such'"):
        global_function("no.such")
    with pytest.raises(TypeError, match=r"ffi\.ArraySize"):
        global_function("ffi.ArraySize")(1)


_OTHERS_TYPES = """
import ctypes
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.c_int]
ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.c_int]
from tvm_neocpu.runtime.ffi.arrays import aligned_zeros
from tvm_neocpu.runtime.ffi.light.objects import tensor_over
print(tensor_over(aligned_zeros((2,), "float32")).array().tolist())
print(len(ctypes.pythonapi.PyCapsule_GetPointer.argtypes))
"""


def test_types_that_others_give_pythons_functions() -> None:
    done = run_script(_OTHERS_TYPES)
    assert done.stderr == ""
    assert done.stdout.split("\n")[:2] == ["[0.0, 0.0]", "1"]


def test_bfloat16_keeps_its_type() -> None:
    tensor = tensor_over(filled((3,), "bfloat16"))
    assert tensor is not None
    assert tensor.array().dtype == ml_dtypes.bfloat16


_SCRIPT = """
import sys
import numpy as np
import tvm_neocpu
from tvm_neocpu.runtime.ffi.light import c_abi
c_abi._VERSION = {version}
session = tvm_neocpu.Session({path!r})
found = [session.run({{"data": np.full((1, 8, 6, 6), n, "float32")}})["out"] for n in range(4)]
print("tvm_ffi.core" in sys.modules, np.array(found).tobytes().hex())
"""


def test_an_unknown_version_takes_the_package(lib: object, tmp_path: object) -> None:
    path = f"{tmp_path}/net.so"
    lib.export_library(path)  # type: ignore[attr-defined]
    answers = []
    for version, packaged in (((0, 1), "False"), ((9, 9), "True")):
        done = run_script(_SCRIPT.format(version=version, path=path))
        assert done.stderr == ""
        said, answer = done.stdout.split()
        assert said == packaged
        answers.append(answer)
    assert answers[0] == answers[1]
