"""Files whose large weights stay in the file until the importer takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend import from_onnx, import_file
from tvm_neocpu.frontend.reading.onnx_model import load_to_import
from tvm_neocpu.frontend.reading.weights_in_file import model_without_weights

LARGE = np.random.default_rng(0).standard_normal((300, 256), dtype=np.float32)


def product(batch: int | str = 2) -> onnx.ModelProto:
    """A product with a large weight, and a sum with a small one."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["data", "large"], ["y"]),
            helper.make_node("Add", ["y", "small"], ["out"]),
        ],
        "g",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [batch, 300])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [batch, 256])],
        [
            numpy_helper.from_array(LARGE, "large"),
            numpy_helper.from_array(LARGE[0], "small"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize("batch", [2, "N"])
def test_the_module_is_that_of_the_model(tmp_path: Path, batch: int | str) -> None:
    path = saved(product(batch), tmp_path)
    message, weights = load_to_import(path)
    assert weights is not None and list(weights.offsets) == ["large"]
    assert message.ByteSize() < 4096
    tvm.ir.assert_structural_equal(import_file(path), from_onnx(product(batch))[0])


def _half(model: onnx.ModelProto) -> None:
    model.graph.initializer[1].CopyFrom(
        numpy_helper.from_array(LARGE[0].astype("float16"), "small")
    )


def _of_numbers(model: onnx.ModelProto) -> None:
    (large, _) = model.graph.initializer
    large.ClearField("raw_data")
    large.float_data.extend(LARGE.reshape(-1).tolist())


def _too_short(model: onnx.ModelProto) -> None:
    large = model.graph.initializer[0]
    large.raw_data = large.raw_data[:-4]


def _of_a_branch(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([], "branch", [], [])
    model.graph.node.append(helper.make_node("If", ["c"], [], then_branch=inner))


def _elsewhere(model: onnx.ModelProto) -> None:
    """A constant by the weight's name whose values lie in a file of somebody else."""
    tensor = TensorProto(name="large", dims=[1], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/hostname")
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))


def _twice(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


@pytest.mark.parametrize(
    "change", [_half, _of_numbers, _too_short, _of_a_branch, _elsewhere, _twice]
)
def test_any_other_file_is_read_whole(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None]
) -> None:
    model = product()
    change(model)
    assert model_without_weights(saved(model, tmp_path)) is None


def test_bytes_that_are_no_model_are_read_whole(tmp_path: Path) -> None:
    content = product().SerializeToString()
    path = tmp_path / "net.onnx"
    for broken in (content[:-1], content[:100], b"\xff" * 400_000, b"", bytes(range(256)) * 2000):
        path.write_bytes(broken)
        assert model_without_weights(path) is None
        with pytest.raises(ModelFileError):
            import_file(path)


def test_a_message_of_very_many_fields_is_read_whole(tmp_path: Path) -> None:
    path = saved(product(), tmp_path)
    unknown = b"\x58\x00" * 2**18  # field 11, a number
    path.write_bytes(path.read_bytes() + unknown)
    assert model_without_weights(path) is None
    assert load_to_import(path)[0].graph.node


def test_a_file_that_becomes_shorter_is_refused(tmp_path: Path) -> None:
    path = saved(product(), tmp_path)
    message, weights = load_to_import(path)
    path.write_bytes(path.read_bytes()[:1000])
    assert weights is not None
    with pytest.raises(ModelFileError, match="became shorter while it was read"):
        weights.read(message.graph.initializer[0])
