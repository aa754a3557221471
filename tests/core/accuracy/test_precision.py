"""What a user may ask for by precision=, max_error= and accuracy_data=."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_neocpu.core.accuracy import precision
from tvm_neocpu.core.accuracy.precision import (
    DEFAULT_ERROR,
    DEFAULT_HALF_ERROR,
    PrecisionError,
    check_half,
    half_line,
    request_of,
)
from tvm_neocpu.core.machine.cpu import AVX2, AVX512, SSE, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.machine.half import halves_of
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import BF16_WEIGHTS

DATA = {"data": np.zeros((2, 3), "float32")}


def test_fp32_is_no_request() -> None:
    assert request_of() is None and request_of("fp32") is None


def test_auto_has_a_bound_and_int8_has_none() -> None:
    auto, int8 = request_of("auto", None, DATA), request_of("int8", None, DATA)
    assert auto is not None and int8 is not None
    assert (auto.max_error, int8.max_error) == (DEFAULT_ERROR, None)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("fp8",), "precision is one of 'fp32', 'int8', 'auto', 'fp16' and 'bf16', not 'fp8'"),
        ((["int8"],), r"not \['int8'\]"),
        (("fp32", 0.1), "max_error and accuracy_data are for a precision below 'fp32'"),
        (("fp32", None, DATA), "max_error and accuracy_data are for a precision"),
        (("fp32", None, DATA["data"]), "max_error and accuracy_data are for a precision"),
        (("bf16", 0.1), "precision 'bf16' with max_error needs accuracy_data"),
        (("fp16", 0.1), "precision 'fp16' with max_error needs accuracy_data"),
        (("bf16", -0.1), "max_error is a number above 0, such as 0.05, not -0.1"),
        (("fp16", None, 3), "accuracy_data is arrays by name or a path, not 3"),
        (("int8",), "precision 'int8' needs accuracy_data"),
        (("auto", 0, DATA), "max_error is a number above 0, such as 0.05, not 0"),
        (("auto", float("nan"), DATA), "not nan"),
        (("auto", float("inf"), DATA), "not inf"),
        (("auto", True, DATA), "not True"),
        (("auto", 1e-9, DATA), "1e-09 is below what fp32 itself may be off by, 2e-05 "),
        (("int8", 1e-9, DATA), "the best reachable is that, in 'fp32'"),
        (("auto", "0.1", DATA), "not '0.1'"),
        (("int8", None, 3), "accuracy_data is arrays by name or a path, not 3"),
    ],
)
def test_one_line_says_what_is_wrong(asked: tuple[Any, ...], said: str) -> None:
    with pytest.raises(PrecisionError, match=said) as caught:
        request_of(*asked)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_half_precision_needs_no_data(name: str, dtype: str) -> None:
    request = request_of(name)
    assert request is not None and request.half == dtype
    asked = request.options
    assert request_of(asked["precision"], asked["max_error"], asked["accuracy_data"]) == request


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_with_data_it_has_a_bound(name: str) -> None:
    request = request_of(name, None, DATA)
    assert request is not None and request.half is None
    assert request.max_error == DEFAULT_HALF_ERROR and request.options["accuracy_data"] is DATA
    given = request_of(name, 0.1, DATA)
    assert given is not None and given.max_error == 0.1


def test_a_cpu_that_cannot_widen_is_named() -> None:
    cpu = Cpu("core2", SSE, 1, halves=halves_of(frozenset({"sse2"})))
    with pytest.raises(PrecisionError, match="'fp16': core2 cannot widen vectors of such weights"):
        check_half("fp16", cpu)
    check_half("fp16", Cpu("haswell", AVX2, 1, halves=halves_of(frozenset({"avx2", "f16c"}))))


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_the_key_tells_versions_apart(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another ONNX Runtime may find other ranges: what it quantised is built anew."""
    request = request_of("int8", None, DATA)
    assert request is not None
    before, real = request.key, precision.version
    monkeypatch.setattr(precision, "version", lambda name: real(name) + ".1" * (name == package))
    assert request.key != before


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("int8", None, DATA)
    monkeypatch.setattr(precision, "QUANTISING", ("a-package-that-nobody-has",))
    assert request is not None and request.key[-1] == ""


def test_the_key_tells_requests_apart(tmp_path: Path) -> None:
    one = {"data": np.ones((2, 3), "float32")}
    path = tmp_path / "data.npz"
    np.savez(path, **one)
    folder = tmp_path / "more"
    folder.mkdir()
    np.save(folder / "a.npy", one["data"])
    asked = [
        ("int8", None, DATA),
        ("int8", 0.1, DATA),
        ("auto", 0.1, DATA),
        ("int8", None, one),
        ("int8", None, {"other": one["data"]}),
        ("int8", None, {"data": one["data"].reshape(3, 2)}),
        ("int8", None, {"data": one["data"].view("int32")}),
        ("int8", None, [DATA, one]),
        ("int8", None, [one, DATA]),
        ("int8", None, path),
        ("int8", None, folder),
    ]

    def key(case: tuple[Any, ...]) -> list[str]:
        request = request_of(*case)
        assert request is not None
        return request.key

    assert len({tuple(key(case)) for case in asked}) == len(asked)
    assert [key(case) for case in asked] == [key(case) for case in asked]
    before = key(("int8", None, folder))
    np.save(folder / "b.npy", one["data"])
    assert key(("int8", None, folder)) != before


def test_data_that_can_be_read_once_are_kept() -> None:
    request = request_of("int8", None, (each for each in [DATA]))  # type: ignore[arg-type]
    assert request is not None and request.key == request.key and list(request.data) == [DATA]


def test_one_line_says_what_becomes_of_half_precision() -> None:
    zen_4 = Cpu("znver4", AVX512, 1, dots=dots_of(frozenset({"avx512bf16"})))
    zen_3 = Cpu("znver3", AVX2, 1)
    assert "that vdpbf16ps makes faster on znver4 multiply in bf16" in half_line("bf16", zen_4)
    tiles = replace(zen_4, name="graniterapids", matrix=MatrixUnit((BF16_WEIGHTS,)))
    assert "that AMX makes faster on graniterapids" in half_line("bf16", tiles)
    assert "znver3, which does not multiply in bf16; arithmetic is fp32" in half_line("bf16", zen_3)
    assert half_line("fp16", zen_4).endswith("wait for memory on znver4; arithmetic is fp32")
