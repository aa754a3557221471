"""The oracle of the convolution templates against another one, ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

ort = pytest.importorskip("onnxruntime")

CONVS = {
    "dense": ConvWorkload(2, 6, 9, 8, 10, (3, 2), (2, 1), (1, 0, 2, 1)),
    "dilated": ConvWorkload(1, 5, 11, 12, 4, (3, 3), (1, 2), (2, 3, 2, 3), (2, 3)),
    "groups": ConvWorkload(1, 12, 7, 7, 18, (3, 3), padding=(1, 1, 1, 1), groups=3),
    "channel multiplier": ConvWorkload(2, 6, 6, 5, 12, (3, 3), (1, 1), (1, 1, 1, 1), groups=6),
    "one pixel": ConvWorkload(1, 16, 1, 1, 8, (1, 1)),
}


def by_onnx_runtime(conv: ConvWorkload, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        strides=conv.stride,
        pads=conv.padding,
        dilations=conv.dilation,
        group=conv.groups,
    )
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in (("x", data), ("w", weight))
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, conv.out_shape)
    graph = helper.make_graph([node], "conv", inputs, [output])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = ort.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": data, "w": weight})[0]


@pytest.mark.parametrize("name", CONVS)
def test_onnx_runtime_agrees(name: str) -> None:
    conv, rng = CONVS[name], np.random.default_rng(0)
    data = rng.normal(size=conv.in_shape).astype("float32")
    weight = rng.normal(size=conv.weight_shape).astype("float32")
    found, expected = convolved(conv, data, weight), by_onnx_runtime(conv, data, weight)
    assert found.shape == expected.shape == conv.out_shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_sums_are_of_double_precision_and_results_of_the_output_type() -> None:
    """Terms of 1e-4 are lost beside 1e4 in single precision."""
    conv = ConvWorkload(1, 3, 1, 1, 1, (1, 1))
    data = np.array([1e4, 1e-4, -1e4], "float32").reshape(conv.in_shape)
    found = convolved(conv, data, np.ones(conv.weight_shape, "float32"))
    assert found.dtype == np.float32
    assert found.item() == pytest.approx(1e-4, rel=1e-6)
