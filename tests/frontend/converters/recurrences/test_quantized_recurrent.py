"""DynamicQuantizeLSTM as ONNX Runtime computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_text import Array, assert_like, check_like_peer, normal, ort, ours

from tvm_neocpu.core.errors import UnsupportedOperatorError

STEPS, INPUTS, HIDDEN = 5, 7, 6
GATES = 4 * HIDDEN


def network(
    kind: str = "uint8",
    *,
    directions: int = 1,
    per_column: bool = False,
    batch: int = 1,
    scale: float = 0.01,
    **attributes: Any,
) -> tuple[onnx.ModelProto, Array]:
    """A node with biases and states, and data for it.

    int8 weights are small: ONNX Runtime's products of uint8 and int8 saturate without VNNI.
    """
    rng = np.random.default_rng(0)
    low, high = (0, 256) if kind == "uint8" else (-60, 61)
    scales = (directions, GATES) if per_column else (directions,)
    values = {
        "W": rng.integers(low, high, (directions, INPUTS, GATES)).astype(kind),
        "R": rng.integers(low, high, (directions, HIDDEN, GATES)).astype(kind),
        "B": normal(directions, 2 * GATES),
        "h": normal(directions, batch, HIDDEN, seed=1),
        "c": normal(directions, batch, HIDDEN, seed=2),
        "ws": (scale * (1 + rng.random(scales))).astype("float32"),
        "wz": rng.integers((low + high) // 2 - 5, (low + high) // 2 + 5, scales).astype(kind),
        "rs": (scale * (1 + rng.random(scales))).astype("float32"),
        "rz": rng.integers((low + high) // 2 - 5, (low + high) // 2 + 5, scales).astype(kind),
    }
    if kind == "int8":
        values["wz"][:] = values["rz"][:] = 0
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "W", "R", "B", "", "h", "c", "", "ws", "wz", "rs", "rz"],
        ["Y", "Y_h", "Y_c"],
        domain="com.microsoft",
        hidden_size=HIDDEN,
        direction="bidirectional" if directions == 2 else "forward",
        **attributes,
    )
    data = normal(STEPS, batch, INPUTS, seed=3)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=6), data


@pytest.mark.parametrize(
    ("kind", "per_column"), [("uint8", False), ("int8", False), ("int8", True)]
)
@pytest.mark.parametrize("directions", [1, 2])
def test_like_onnx_runtime(kind: str, per_column: bool, directions: int) -> None:
    model, data = network(kind, directions=directions, per_column=per_column)
    check_like_peer(model, x=data)


def test_several_sequences_and_a_clip() -> None:
    """On several threads, ONNX Runtime takes the range of each thread's sequences by itself."""
    model, data = network(batch=2, clip=0.7)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    assert_like(ours(model, {"x": data}), session.run(None, {"x": data}))


def test_a_scale_of_zero_is_refused() -> None:
    model, data = network(scale=0.0)
    with pytest.raises(UnsupportedOperatorError, match="a scale of 0; scales are positive"):
        ours(model, {"x": data})
