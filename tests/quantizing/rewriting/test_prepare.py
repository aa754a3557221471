"""What is quantised has ONNX's own operators, also where ONNX Runtime had fused them before."""

from __future__ import annotations

import onnx
import pytest
from onnx_text import assert_like, normal, peers

from tvm_neocpu.quantizing.onnx_graphs import weights_of
from tvm_neocpu.quantizing.quantiser import Quantiser, Settings
from tvm_neocpu.quantizing.rewriting.prepare import prepare

LAYERS = {
    "convolutions": """
        a = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.1]> (x, w, b)
        y = com.microsoft.FusedConv <activation = "Relu"> (a, v, b)
    """,
    "swish and GELU": """
        a = Conv (x, w, b)
        c = com.microsoft.QuickGelu <alpha = 1.0> (a)
        d = Conv (c, v, b)
        e = com.microsoft.Gelu (d)
        f = com.microsoft.FastGelu (e)
        y = Conv (f, v, b)
    """,
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_file_that_onnx_runtime_saved(name: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> '
        f"g (float[1,3,8,8] x) => (float[1,4,N,M] y) {{ {LAYERS[name]} }}"
    )
    weights = {"w": normal(4, 3, 3, 3), "v": normal(4, 4, 1, 1, seed=1), "b": normal(4, seed=2)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, key) for key, value in weights.items()
    )
    samples = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(4)]
    ready = prepare(model, "saved")
    assert not any(node.domain for node in ready.graph.node)
    assert_like(peers(ready, samples[0]), peers(model, samples[0]))
    quantiser = Quantiser(model, "saved", samples, Settings())
    written = quantiser.write(quantiser.everything)
    filters = [tensor for tensor in weights_of(written.graph).values() if len(tensor.dims) == 4]
    assert len(filters) == 2
    assert all(tensor.data_type == onnx.TensorProto.INT8 for tensor in filters)
