"""What an input with open dimensions is suggested to be."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tvm_neocpu import Session
from tvm_neocpu.commands import explain
from tvm_neocpu.core.errors import ModelFileError, OpenShapeError, ShapeError
from tvm_neocpu.frontend.reading.onnx_model import check_model, load_model, resolve_shapes


def relu(*shape: int | str) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["data"], ["out"])],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("declared", "example"),
    [
        (("N", 3, "H", "W"), (1, 3, 224, 224)),
        (("N", 1, 48, "W"), (1, 1, 48, 224)),
        ((2, "C", "H", "W"), (2, 3, 224, 224)),
        (("N", "H", "W", 3), (1, 224, 224, 3)),
        (("N", 3, 8, "H", "W"), (1, 3, 8, 224, 224)),
        (("N", 10), (1, 10)),
        (("N", "T", 64), (1, 128, 64)),
        (("N",), (1,)),
    ],
)
def test_an_open_dimension_is_suggested_to_be_what_fits(
    declared: tuple[int | str, ...], example: tuple[int, ...]
) -> None:
    with pytest.raises(OpenShapeError) as caught:
        resolve_shapes(relu(*declared).graph, None)
    assert caught.value.example == example
    given, option = f"{{'data': {example}}}", f"--shape data:{','.join(map(str, example))}"
    assert str(caught.value).endswith(
        f"give a shape, like Session(..., shapes={given}), "
        f"from_onnx(model, {given}) before relay.build, or {option}"
    )


def test_the_command_line_suggests_its_own_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "relu.onnx"
    onnx.save(relu("N", 3, "H", "W"), path)
    assert explain.main([str(path)]) == 2
    assert capsys.readouterr().err == (
        "error: input 'data' has dynamic dimensions, [?, 3, ?, ?]; "
        "give a shape, like --shape data:1,3,224,224\n"
    )


def test_a_dimension_may_be_empty_where_the_model_has_it_so() -> None:
    fixed = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 0, 4])
    graph = helper.make_graph([], "g", [fixed], [])
    assert resolve_shapes(graph, {"x": (2, 0, 4)}) == {"x": (2, 0, 4)}
    with pytest.raises(ShapeError, match="a dimension below 1"):
        resolve_shapes(graph, {"x": (0, 0, 4)})
    with pytest.raises(ShapeError, match="has dynamic dimensions"):
        resolve_shapes(graph, None)


@pytest.mark.parametrize("opset", [onnx.defs.onnx_opset_version() + 1, 99])
def test_an_opset_that_does_not_exist_is_refused(opset: int) -> None:
    model = relu(1, 3, 8, 8)
    model.opset_import[0].version = opset
    with pytest.raises(ModelFileError, match=rf"^the model is of opset {opset}; .* is the newest"):
        check_model(model)


def test_the_newest_opset_is_taken() -> None:
    model = relu(1, 3, 8, 8)
    model.opset_import[0].version = onnx.defs.onnx_opset_version()
    assert check_model(model) is model


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the model file's name is empty"),
        ("a" * 5000 + ".onnx", "^cannot read a+: File name too long$"),
        ("a\0b.onnx", "there is no model file"),
        ("pipe.onnx", "pipe.onnx is not a model file"),
        ("text.onnx/model.onnx", "there is no model file"),
    ],
)
def test_names_that_are_none_of_a_file(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.onnx")
    Path("text.onnx").write_text("no folder")
    for read in (load_model, Session):
        with pytest.raises(ModelFileError, match=words):
            read(name)
