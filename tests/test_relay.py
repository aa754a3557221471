"""The classic front door: importing ONNX with clear errors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from onnx_net import node, ort, reference, run
from onnx_node import image

import tvm_neocpu  # provides tvm.relay
from tvm_neocpu import relay
from tvm_neocpu.core.errors import (
    ModelFileError,
    ShapeError,
    UnsupportedOperatorError,
)

MakeModel = Callable[..., onnx.ModelProto]


def test_tvm_has_relay() -> None:
    import tvm.relay
    import tvm.relay.frontend
    from tvm.relay import frontend

    assert tvm.relay is relay
    assert frontend.from_onnx is relay.frontend.from_onnx


@pytest.mark.parametrize("freeze", [True, False])
def test_a_network_computes_what_onnx_runtime_does(tiny_cnn: onnx.ModelProto, freeze: bool) -> None:
    mod, params = relay.frontend.from_onnx(tiny_cnn, {"data": (1, 8, 6, 6)}, freeze_params=freeze)
    assert sorted(params) == ([] if freeze else ["b", "fb", "fc", "w"])
    lib = relay.build(mod, target="llvm", params=params)
    data = image(1, 8, 6, 6)
    np.testing.assert_allclose(run(lib, data), reference(tiny_cnn, data), rtol=1e-4, atol=1e-5)


def test_threads_import_and_build_at_once(tiny_cnn: onnx.ModelProto) -> None:
    data = image(1, 8, 6, 6)
    expected = reference(tiny_cnn, data)

    def build_and_run(_: int) -> np.ndarray:
        mod, params = relay.frontend.from_onnx(tiny_cnn)
        return run(relay.build(mod, target="llvm", params=params), data)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(build_and_run, range(8)):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_params_may_be_arrays_and_names_that_main_lacks_are_ignored(
    tiny_cnn: onnx.ModelProto,
) -> None:
    mod, params = relay.frontend.from_onnx(tiny_cnn, freeze_params=False)
    arrays = {name: tensor.numpy() for name, tensor in params.items()}
    lib = relay.build(mod, params={**arrays, "other": np.zeros(3)})
    data = image(1, 8, 6, 6)
    np.testing.assert_allclose(run(lib, data), reference(tiny_cnn, data), rtol=1e-4, atol=1e-5)


def test_a_missing_or_misshapen_weight_is_named(tiny_cnn: onnx.ModelProto) -> None:
    mod, params = relay.frontend.from_onnx(tiny_cnn, freeze_params=False)
    with pytest.raises(ShapeError, match="no value for weight"):
        relay.build(mod)
    with pytest.raises(ShapeError, match="weight 'b'"):
        relay.build(mod, params={**params, "b": np.zeros(3, "float32")})
    wide = {name: tensor.numpy().astype("float64") for name, tensor in params.items()}
    with pytest.raises(ShapeError, match="is float32, not float64"):
        relay.build(mod, params=wide)


def test_a_path_is_a_model(tiny_cnn: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    onnx.save(tiny_cnn, path)
    for spelled in (path, str(path)):
        mod, _ = relay.frontend.from_onnx(spelled)
        assert [var.name for var in mod["main"].params] == ["data"]


def test_names_that_are_no_identifiers_survive(make_model: MakeModel) -> None:
    model = make_model([node("Relu", "input.1:0")], (1, 4), name="input.1:0")
    mod, _ = relay.frontend.from_onnx(model)
    lib = relay.build(mod)
    assert lib.input_names == ("input.1:0",)
    data = image(1, 4)
    np.testing.assert_array_equal(run(lib, data), np.maximum(data, 0))


@pytest.mark.parametrize("freeze", [True, False])
def test_outputs_keep_their_names_and_order(
    freeze: bool, make_model: MakeModel, tmp_path: Path
) -> None:
    nodes = [
        node("Add", "data", "w", out="sum:0"),
        node("Relu", "sum:0"),
        node("Neg", "out", out="z"),
    ]
    model = make_model(nodes, (1, 4), {"w": (4,)})
    for name in ("z", "sum:0"):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)))
    mod, params = relay.frontend.from_onnx(model, freeze_params=freeze)
    lib = relay.build(mod, params=params)
    lib.export_library(tmp_path / "net.tar")
    assert lib.output_names == ("out", "z", "sum:0")
    assert tvm_neocpu.load(tmp_path / "net.tar").output_names == lib.output_names
    data = image(1, 4)
    module = lib["default"](tvm.cpu())
    module.run(data=data)
    session = ort.InferenceSession(model.SerializeToString())
    for number, name in enumerate(lib.output_names):
        (expected,) = session.run([name], {"data": data})
        np.testing.assert_array_equal(module.get_output(name).numpy(), expected)
        np.testing.assert_array_equal(module.get_output(number).numpy(), expected)


def test_weights_that_are_listed_among_the_inputs_are_weights(make_model: MakeModel) -> None:
    model = make_model([node("Add", "data", "w")], (1, 4), {"w": (4,)})
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (4,)))
    mod, _ = relay.frontend.from_onnx(model)
    assert [var.name for var in mod["main"].params] == ["data"]


def test_dynamic_dimensions_take_the_given_shape(make_model: MakeModel) -> None:
    model = make_model([node("Relu", "data")], ("N", 4, "H", "W"))
    mod, _ = relay.frontend.from_onnx(model, {"data": (2, 4, 5, 6)})
    assert run(relay.build(mod), image(2, 4, 5, 6)).shape == (2, 4, 5, 6)


def test_another_batch_works_where_the_network_follows(tiny_cnn: onnx.ModelProto) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn, {"data": (3, 8, 6, 6)})
    data = image(3, 8, 6, 6)
    one_by_one = np.concatenate([reference(tiny_cnn, data[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(run(relay.build(mod), data), one_by_one, rtol=1e-4, atol=1e-5)


def test_another_batch_is_refused_where_the_network_does_not_follow(make_model: MakeModel) -> None:
    model = make_model([node("Reshape", "data", "shape", name="flat")], (1, 4, 2), out_shape=(1, 8))
    values = helper.make_tensor("shape", TensorProto.INT64, [2], [1, -1])
    model.graph.initializer.append(values)
    with pytest.raises(ShapeError, match="batch is fixed to 1 and cannot become 2"):
        relay.frontend.from_onnx(model, {"data": (2, 4, 2)})


@pytest.mark.parametrize(
    ("declared", "given", "words"),
    [
        ((1, 4), {"date": (1, 4)}, "no input 'date'; did you mean data"),
        ((1, 4), {"image": (1, 4)}, "no input 'image'; its inputs are data"),
        ((1, 4), {"data": (1, 5)}, "is [1, 4] in the model, not [1, 5]"),
        ((1, 4), {"data": (1, 4, 4)}, "is [1, 4] in the model, not [1, 4, 4]"),
        ((1, 4), {"data": (0, 4)}, "dimension below 1"),
        ((1, 4), {"data": 4}, "not a list of whole numbers"),
        ((1, 4), {"data": (1.5, 4)}, "not a list of whole numbers"),
        ((1, "N"), None, "input 'data' has dynamic dimensions, [1, ?]; give a shape"),
        ((1, 4), {"data": ("N", 5)}, "is [1, 4] in the model, not [1, 5]"),
        ((1, 4), {"data": (1, "M")}, "is [1, 4] in the model, not [1, 'M']"),
        (None, None, "input 'data' has no shape; give one: Session(..., shapes={'data': "),
    ],
)
def test_bad_shapes(declared: object, given: object, words: str, make_model: MakeModel) -> None:
    model = make_model([node("Relu", "data")], declared)
    with pytest.raises(ShapeError) as caught:
        relay.frontend.from_onnx(model, given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_unknown_operators_are_named_up_front(make_model: MakeModel) -> None:
    nodes = [
        node("ImageDecoder", "data", out="a"),
        node("Relu", "a", out="b"),
        node("MyOp", "b", out="c", domain="my.domain"),
        node("Relu", "c", domain="my.domain"),
    ]
    with pytest.raises(UnsupportedOperatorError) as caught:
        relay.frontend.from_onnx(make_model(nodes))
    assert str(caught.value).endswith("ImageDecoder, my.domain::MyOp, my.domain::Relu")


def test_an_unknown_operator_in_a_branch_is_named(make_model: MakeModel) -> None:
    branch = helper.make_graph(
        [node("ImageDecoder", "data", out="y")],
        "branch",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    nodes = [node("If", "data", then_branch=branch, else_branch=branch)]
    with pytest.raises(UnsupportedOperatorError, match="ImageDecoder"):
        relay.frontend.from_onnx(make_model(nodes))


def test_an_operator_that_fails_to_import_is_named_with_its_node(
    make_model: MakeModel, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("MatMul", "data", "w", name="bad_product")]
    with pytest.raises(UnsupportedOperatorError, match=r"MatMul \(node bad_product\)") as caught:
        relay.frontend.from_onnx(make_model(nodes, (1, 4), {"w": (5, 3)}))
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_importing_works_after_a_failure(make_model: MakeModel, tiny_cnn: onnx.ModelProto) -> None:
    with pytest.raises(UnsupportedOperatorError):
        relay.frontend.from_onnx(make_model([node("MatMul", "data", "w")], (1, 4), {"w": (5, 3)}))
    relay.frontend.from_onnx(tiny_cnn)


def test_a_tensor_that_nothing_makes_is_named(make_model: MakeModel) -> None:
    with pytest.raises(ModelFileError, match="nowhere"):
        relay.frontend.from_onnx(make_model([node("Add", "data", "nowhere")]))


def test_functions_of_the_model_are_inlined(make_model: MakeModel) -> None:
    body = [node("Relu", "x", out="y")]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("mine", "Act", ["x"], ["y"], body, opsets)
    model = make_model([node("Act", "data", domain="mine")], (1, 4))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("mine", 1))
    mod, _ = relay.frontend.from_onnx(model)
    assert run(relay.build(mod), image(1, 4)).min() >= 0


def _files(folder: Path, model: onnx.ModelProto) -> dict[str, Path]:
    content = model.SerializeToString()
    files = {
        "truncated": content[: len(content) // 2],
        "cut": content[: content.rindex(b"out") + 3],
        "text": b"this is not a model\n" * 20,
        "empty": b"",
    }
    for name, data in files.items():
        (folder / f"{name}.onnx").write_bytes(data)
    return {name: folder / f"{name}.onnx" for name in (*files, "missing")}


@pytest.mark.parametrize("kind", ["truncated", "cut", "text", "empty", "missing"])
def test_bad_model_files(kind: str, tiny_cnn: onnx.ModelProto, tmp_path: Path) -> None:
    path = _files(tmp_path, tiny_cnn)[kind]
    with pytest.raises(ModelFileError) as caught:
        relay.frontend.from_onnx(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="not a model file"):
        relay.frontend.from_onnx(tmp_path)


def test_missing_external_weights_are_one_line(tiny_cnn: onnx.ModelProto, tmp_path: Path) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(tiny_cnn)
    path = tmp_path / "tiny.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    relay.frontend.from_onnx(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelFileError) as caught:
        relay.frontend.from_onnx(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", [None, 3, onnx.ModelProto()])
def test_what_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(ModelFileError):
        relay.frontend.from_onnx(model)
