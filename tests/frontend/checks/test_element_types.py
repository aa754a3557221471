"""Types that would be computed wrong, or not at all, are refused by the tensor's name."""

from __future__ import annotations

import pytest
from onnx_text import parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

GRAPHS = {
    "int4": ("g (int4[3] x) => (float[3] y) { y = Cast<to = 1>(x) }", "'x' .* int4"),
    "float8e4m3fn": (
        "g (float[3] x) => (float[3] y) { e = Cast<to = 17>(x) y = Cast<to = 1>(e) }",
        "'e' .* float8e4m3fn",
    ),
    "string": ("g (string[3] x) => (string[3] y) { y = Identity(x) }", "'x' .* string"),
    "a result": ("g (float[3] x) => (float8e5m2[3] y) { y = Cast<to = 19>(x) }", "float8e5m2"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_refused_in_one_line(name: str) -> None:
    text, message = GRAPHS[name]
    with pytest.raises(UnsupportedOperatorError, match=message) as caught:
        relay.frontend.from_onnx(parsed(text, opset=21))
    assert "\n" not in str(caught.value)
