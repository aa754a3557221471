"""Weights of 4 bits: what ONNX Runtime computes of them, and what stays refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_text import check_like_peer, normal

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

LIMITS = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16)}


def codes(name: str, kind: int, *shape: int) -> TensorProto:
    values = np.random.default_rng(len(name)).integers(*LIMITS[kind], shape)
    return helper.make_tensor(name, kind, shape, values.ravel().tolist())


def model_of(text: str, *weights: TensorProto) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    model.graph.initializer.extend(weights)
    return model


@pytest.mark.parametrize("kind", LIMITS)
def test_weights(kind: int) -> None:
    """One scale for each filter, and one for each block of three rows, the last one short."""
    text = """g (float[1,2,5,5] x) => (y, v) {
        w = DequantizeLinear <axis = 0> (cw, sw, zw)
        y = Conv (x, w)
        m = DequantizeLinear <axis = 0, block_size = 3> (cm, sm)
        v = MatMul (x, m)
    }"""
    scales = [
        onnx.numpy_helper.from_array(np.abs(normal(*shape)), name)
        for name, shape in (("sw", (3,)), ("sm", (2, 4)))
    ]
    weights = [codes("cw", kind, 3, 2, 3, 3), codes("zw", kind, 3), codes("cm", kind, 5, 4)]
    check_like_peer(model_of(text, *weights, *scales), x=normal(1, 2, 5, 5))


@pytest.mark.parametrize("text", ["y = Identity (c)", "y = Cast <to = 1> (c)"])
def test_other_readers_are_refused(text: str) -> None:
    model = model_of(f"g (float[2] x) => (y) {{ {text} }}", codes("c", TensorProto.INT4, 4))
    with pytest.raises(UnsupportedOperatorError, match="tensor 'c' has elements of the type int4"):
        relay.frontend.from_onnx(model)
