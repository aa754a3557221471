"""What a session is made of: files of any name, models, and what is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import tvm_neocpu
from tvm_neocpu import Session
from tvm_neocpu.core.errors import (
    MissingPackageError,
    ModelFileError,
    SessionError,
    ShapeError,
)
from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.runtime.built_module import BuiltModule

Array = NDArray[np.float32]
SHAPE = (1, 8, 6, 6)
FIRST = min(allowed_cpus())


def test_shapes_of_several_specialisations_are_refused(tiny_cnn: onnx.ModelProto) -> None:
    with pytest.raises(SessionError, match="is one dict, like"):
        Session(tiny_cnn, shapes=[{"data": (1, 8, 6, 6)}])  # type: ignore[arg-type]


def test_models_of_every_kind(
    lib: BuiltModule, tiny_cnn: onnx.ModelProto, data: Array, scores: Array, tmp_path: Path
) -> None:
    lib.export_library(tmp_path / "net.so")
    onnx.save(tiny_cnn, tmp_path / "net.onnx")
    for model in (tmp_path / "net.so", str(tmp_path / "net.onnx"), tiny_cnn):
        with Session(model) as session:
            np.testing.assert_allclose(session.run({"data": data})["out"], scores, rtol=1e-6)


@pytest.mark.parametrize("name", ["net.SO", "net.so.1", "net", "net.onnx"])
def test_a_compiled_file_may_have_any_name(
    name: str, lib: BuiltModule, data: Array, scores: Array, tmp_path: Path
) -> None:
    lib.export_library(tmp_path / "net.so")
    (tmp_path / "net.so").rename(tmp_path / name)
    with Session(tmp_path / name) as session:
        np.testing.assert_array_equal(session.run({"data": data})["out"], scores)
    with pytest.raises(SessionError, match="this is compiled"):
        Session(tmp_path / name, shapes={"data": SHAPE})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names there")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is not a model file"):
        Session(tmp_path / "pipe")


def test_a_package_without_a_compiler_says_what_compiling_needs(
    tiny_cnn: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(tiny_cnn, tmp_path / "net.onnx")
    monkeypatch.delenv("TVM_NEOCPU_CACHE", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(MissingPackageError, match=r"whole package: pip .*\(platformdirs "):
        Session(tmp_path / "net.onnx")


@pytest.mark.parametrize("model", ["no/such.onnx", "no/such.so", 7, None])
def test_models_of_no_kind_are_one_line(model: object) -> None:
    with pytest.raises(tvm_neocpu.NeoCpuError) as caught:
        Session(model)
    assert "\n" not in str(caught.value)
    if not isinstance(model, str):
        assert isinstance(caught.value, ModelFileError)


@pytest.mark.parametrize("cache", [True, False])
def test_an_empty_name_is_no_file(cache: bool) -> None:
    with pytest.raises(ModelFileError, match="the model file's name is empty"):
        Session("", cache=cache)


def test_what_would_be_ignored_is_refused(lib: BuiltModule, data: Array, tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    lib.export_library(path)
    ignored: list[dict[str, Any]] = [
        {"shapes": {"data": SHAPE}},
        {"target": "llvm -mcpu=znver4"},
        {"precision": "int8"},
        {"max_error": 0.1},
    ]
    for model in (lib, path, str(path)):
        for options in ignored:
            (name,) = options
            with pytest.raises(SessionError, match=f"^{name}= is for ONNX models"):
                Session(model, **options)
    with Session(path) as session, Session(path) as other:
        with pytest.raises(ShapeError, match=r"masked array: fill it, \.filled"):
            session.run({"data": np.ma.masked_array(data, mask=data > 0)})
        for binding in (None, other.io_binding()):
            with pytest.raises(SessionError, match="not of this session"):
                session.run_with_iobinding(binding)
        for shape in ((1.0, 10.0), "ab"):
            with pytest.raises(ShapeError, match="a shape is whole numbers"):
                session.io_binding().output_array("out", shape)
