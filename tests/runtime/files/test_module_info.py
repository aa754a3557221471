"""Shapes that a module takes, and descriptions of older files."""

from __future__ import annotations

import json

import pytest

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime.files.module_info import (
    FORMAT,
    Entry,
    ModuleInfo,
    TensorInfo,
    info_from_json,
    interface_of,
)

SMALL = Entry("main", (TensorInfo("x", (-1, 3, 8, 8), "float32"),), ())
LARGE = Entry("main_1", (TensorInfo("x", (1, 3, 16, 8), "float32"),), ())
TWO = Entry(
    "main",
    (TensorInfo("a", (-1, 2), "float32"), TensorInfo("b", (-1,), "float32")),
    (TensorInfo("c", (-1, 4), "float32"),),
)
INFO = ModuleInfo("default", TWO.inputs, TWO.outputs, "znver4", "x86_64", ("avx",), 2, (TWO,))


def test_an_open_batch_is_one_number_in_all_inputs() -> None:
    assert TWO.takes([(5, 2), (5,)])
    assert not TWO.takes([(5, 2), (6,)])
    assert not TWO.takes([(5, 3), (5,)])
    assert TWO.takes([None, (6,)])
    assert TWO.completed([None, (6,)]) == ((6, 2), (6,))
    assert TWO.completed([None, None]) == ((1, 2), (1,))


def test_what_entries_have_in_common() -> None:
    assert SMALL.takes([(7, 3, 8, 8)]) and not LARGE.takes([(2, 3, 16, 8)])
    (common,), () = interface_of([SMALL, LARGE])
    assert str(common) == "x float32[?, 3, ?, 8]"
    assert common.takes((4, 3, 9, 8)) and not common.takes((4, 3, 9, 9))


def test_entries_survive_in_the_description() -> None:
    info = INFO._replace(entries=(TWO, TWO._replace(function="main_1")))
    assert info_from_json(info.to_json(), "net.so") == info


def test_a_file_of_format_1_has_one_function() -> None:
    fields = json.loads(INFO.to_json())
    del fields["entries"]
    assert info_from_json(json.dumps({**fields, "format": 1}), "net.so") == INFO
    with pytest.raises(ModuleFileError, match="this is"):
        info_from_json(json.dumps({**fields, "format": FORMAT + 1}), "net.so")
