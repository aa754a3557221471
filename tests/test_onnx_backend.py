"""The standard interface of ONNX backends."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.base import Backend
from onnx_node import Array, image, node_model
from onnx_text import parsed

from tvm_neocpu import onnx_backend
from tvm_neocpu.core.errors import ShapeError, UnsupportedOperatorError

X = image(2, 3)


@pytest.fixture(scope="module")
def two_results() -> onnx.ModelProto:
    return parsed("""
        g (float[N,3] x, float[3] b) => (float[N,3] sum, float[N,3] positive) {
            sum = Add(x, b)
            positive = Relu(sum)
        }""")


def test_it_is_a_backend(two_results: onnx.ModelProto) -> None:
    assert issubclass(onnx_backend.NeoCpuBackend, Backend)
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")
    assert onnx_backend.is_compatible(two_results)
    assert not onnx_backend.is_compatible(two_results, "CUDA:1")
    assert not onnx_backend.is_compatible(node_model("Multinomial", [image(3, 3)]))
    with pytest.raises(UnsupportedOperatorError, match="no device 'CUDA'"):
        onnx_backend.prepare(two_results, "CUDA")


def test_outputs_have_names_and_shapes_follow_the_inputs(two_results: onnx.ModelProto) -> None:
    rep = onnx_backend.prepare(two_results)
    bias = image(3)
    for rows in (2, 4, 2):
        x = image(rows, 3)
        outputs = rep.run([x, bias])
        np.testing.assert_array_equal(outputs[0], x + bias)
        np.testing.assert_array_equal(outputs.positive, np.maximum(x + bias, 0))
        np.testing.assert_array_equal(outputs["sum"], rep.run({"b": bias, "x": x})[0])
    assert len(rep._compiled) == 2


def test_what_does_not_fit_is_refused(two_results: onnx.ModelProto) -> None:
    rep = onnx_backend.prepare(two_results)
    with pytest.raises(ShapeError, match="1 inputs for 2: x, b"):
        rep.run(X)
    with pytest.raises(ShapeError, match="no value for input 'b'"):
        rep.run({"x": X})
    with pytest.raises(ShapeError, match="'x' is float32, not float64"):
        rep.run([X.astype("float64"), image(3)])


def test_an_input_whose_values_decide_shapes_is_compiled_in() -> None:
    model = parsed("""
        g (float[2,6] x, int64[1] rows) => (float[] y) {
            rest = Constant<value_ints = [-1]>()
            shape = Concat<axis = 0>(rows, rest)
            y = Reshape(x, shape)
        }""")
    rep = onnx_backend.prepare(model)
    x = image(2, 6)
    for rows in (3, 4, 3):
        np.testing.assert_array_equal(rep.run([x, np.array([rows])])[0], x.reshape(rows, -1))
    assert len(rep._compiled) == 2


def test_a_static_model_is_compiled_by_prepare() -> None:
    rep = onnx_backend.prepare(node_model("Relu", [X]), target="llvm")
    assert len(rep._compiled) == 1
    np.testing.assert_array_equal(rep.run(X)[0], np.maximum(X, 0))


@pytest.mark.parametrize("options", [{}, {"opset_version": 13}])
def test_a_single_node_runs(options: dict[str, int]) -> None:
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    high: Array = np.array(0.5, "float32")
    outputs = onnx_backend.run_node(node, [X, high], **options)
    np.testing.assert_array_equal(outputs.y, np.minimum(X, high))
    with pytest.raises(ShapeError, match="1 inputs for 2: x, high"):
        onnx_backend.run_node(node, [X])


def test_a_model_runs_at_once() -> None:
    model = node_model("Flatten", [image(2, 3, 4)])
    assert onnx_backend.run_model(model, [image(2, 3, 4)])[0].shape == (2, 12)
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
