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
        ("Add(x)", r"Add \(node without a name\) has 1 of 2 inputs"),
        ("Conv(x)", "has 1 of 2 to 3 inputs"),
        ('Conv(x, "")', "has 1 of 2 to 3 inputs"),
        ("Relu(x, x)", "has 2 of 1 inputs"),
        ("Concat<axis = 0>()", "has 0 of at least 1 inputs"),
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
