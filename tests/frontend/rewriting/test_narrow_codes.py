"""Weights of 4 bits: what ONNX Runtime computes of them, and what stays refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_text import check_like_peer, normal, ours

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


BRANCHES = """g (float[2,4] x, bool c) => (y) { z = Neg (x) y = If (c) <
    then_branch = t () => (float[2,3] p) { w = DequantizeLinear (k, s) p = MatMul (x, w) },
    else_branch = e () => (float[2,3] n) { v = DequantizeLinear (k, s) n = MatMul (z, v) }
> }"""


@pytest.mark.parametrize("as_nodes", [False, True])
def test_weights_of_branches(as_nodes: bool) -> None:
    model = model_of(BRANCHES, onnx.numpy_helper.from_array(np.float32(0.1), "s"))
    values = np.arange(-6, 6).reshape(4, 3)
    weight = helper.make_tensor("k", TensorProto.INT4, (4, 3), values.ravel().tolist())
    for branch in model.graph.node[-1].attribute:
        if as_nodes:
            branch.g.node.insert(0, helper.make_node("Constant", [], ["k"], value=weight))
        else:
            branch.g.initializer.append(weight)
    x = normal(2, 4)
    (found,) = ours(model, {"x": x, "c": np.array(False)})
    np.testing.assert_allclose(found, -x @ (values * np.float32(0.1)), atol=1e-5)


def test_other_readers_in_a_branch_are_refused() -> None:
    model = model_of(BRANCHES.replace("DequantizeLinear (k, s)", "Cast <to = 1> (k)"))
    for branch in model.graph.node[-1].attribute:
        branch.g.initializer.append(codes("k", TensorProto.INT4, 4, 3))
    with pytest.raises(UnsupportedOperatorError, match="tensor 'k' has elements of the type int4"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("text", ["y = Identity (c)", "y = Cast <to = 1> (c)"])
def test_other_readers_are_refused(text: str) -> None:
    model = model_of(f"g (float[2] x) => (y) {{ {text} }}", codes("c", TensorProto.INT4, 4))
    with pytest.raises(UnsupportedOperatorError, match="tensor 'c' has elements of the type int4"):
        relay.frontend.from_onnx(model)
