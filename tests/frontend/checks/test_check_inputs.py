"""Nodes that have too few inputs, or too many."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_text import check_like_peer, parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModelFileError


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("Add(x)", r"Add \(node without a name\) has 1 inputs, not 2"),
        ("Conv(x)", "has 1 inputs, not 2 to 3"),
        ('Conv(x, "")', "lacks input 1, counted from 0"),
        ("Relu(x, x)", "has 2 inputs, not 1"),
        ("Concat<axis = 0>()", "has 0 inputs, not at least 1"),
    ],
)
def test_a_wrong_number_is_refused(node: str, words: str) -> None:
    """TVM's words for one that was missing were of a null pointer."""
    model = parsed(f"g (float[1,3,4,4] x) => (float[] y) {{ y = {node} }}")
    with pytest.raises(ModelFileError, match=words):
        relay.frontend.from_onnx(model)


def test_optional_inputs_may_lack() -> None:
    model = parsed("g (float[1,3,4,4] x) => (float[] y) { y = Clip(x) }")
    check_like_peer(model, x=np.ones((1, 3, 4, 4), "float32"))


def test_a_network_without_nodes_hands_its_input_on() -> None:
    """It was called truncated."""
    x = np.ones((1, 3), "float32")
    check_like_peer(parsed("g (float[1,3] x) => (float[1,3] x) { }"), x=x)


def test_a_file_without_opset_says_so() -> None:
    model = parsed("g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }")
    del model.opset_import[:]
    with pytest.raises(ModelFileError, match="does not say of which opset it is"):
        relay.frontend.from_onnx(model)


def test_the_other_spelling_of_onnxs_domain() -> None:
    """A Clip of three inputs was checked against opset 1, which had one."""
    x = np.linspace(-1, 2, 4, dtype="float32")
    model = parsed(
        "g (float[4] x) => (float[4] y) <float a = {0}, float b = {1}> { y = Clip(x, a, b) }"
    )
    model.opset_import[0].domain = "ai.onnx"
    check_like_peer(model, x=x)
    model.graph.node[0].input.append("b")
    model.graph.node[0].domain = "ai.onnx"
    with pytest.raises(ModelFileError, match="has 4 inputs, not 1 to 3"):
        relay.frontend.from_onnx(model)
