"""The network that every engine gets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tvm_neocpu.contrib.peers.runner import Network

RELU = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 3, H, 20] data) => (float[1, 3, H, 20] output)
{ output = Relu(data) }"""


def network(shape: tuple[int, ...]) -> Network:
    return Network("relu", onnx.parser.parse_model(RELU), {"data": shape}, threads=1)


def test_a_batch_that_the_file_does_not_have_runs_in_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    from tvm_neocpu.contrib.peers.onnx_runtime import OnnxRuntimeRunner

    eight = network((8, 3, 20, 20))
    runner = OnnxRuntimeRunner(eight)
    runner.burst(1)
    np.testing.assert_array_equal(runner.outputs()[0], np.maximum(eight.inputs["data"], 0))


def test_the_given_model_keeps_its_own_shapes() -> None:
    eight, as_declared = network((8, 3, 20, 20)), network((1, 3, 20, 20))
    assert as_declared.content == as_declared.model.SerializeToString()
    (data,) = onnx.load_from_string(eight.content).graph.input
    assert [dim.dim_value for dim in data.type.tensor_type.shape.dim] == [8, 3, 20, 20]
    assert eight.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
