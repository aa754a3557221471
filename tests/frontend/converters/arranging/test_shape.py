"""Shapes that are known at run time only, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_text import Array, check_like_peer, normal, parsed

DATA = np.array([1, 0, 2, 3], "float32")

RUN_TIME = {
    "Shape is an output": "p = NonZero(x)  y = Shape(p)",
    "a part of a Shape": "p = NonZero(x)  y = Shape<start = -1>(p)",
    "Identity of a Shape": "p = NonZero(x)  s = Shape(p)  y = Identity(s)",
    "Size": "p = NonZero(x)  y = Size(p)",
    "Shape, Gather, Concat, Reshape": """
        p = NonZero(x)
        s = Shape(p)
        one = Constant<value = int64[1] {1}>()
        n = Gather(s, one)
        shape = Concat<axis = 0>(n, one)
        y = Reshape(p, shape)
    """,
    "arithmetic on a Shape": """
        p = NonZero(x)
        s = Shape(p)
        wide = Cast<to = 1>(s)
        root = Sqrt(wide)
        y = Cast<to = 7>(root)
    """,
}


@pytest.mark.parametrize("nodes", RUN_TIME)
def test_shapes_of_what_depends_on_data(nodes: str) -> None:
    check_like_peer(parsed(f"g (float[4] x) => (int64[] y) {{{RUN_TIME[nodes]}}}"), x=DATA)


@pytest.mark.parametrize("target", [[6, 4], [-1], [2, -1, 1], [0, -1], [0, 0, 2, 2, 1], [4, 0, -1]])
def test_reshape_to_a_shape_that_is_an_input(target: list[int]) -> None:
    text = f"g (float[2,3,4] x, int64[{len(target)}] s) => (float[] y) {{ y = Reshape(x, s) }}"
    check_like_peer(parsed(text), x=normal(2, 3, 4), s=np.array(target))


@pytest.mark.parametrize("opset", [4, 5, 14])
@pytest.mark.parametrize("target", [[6, 4], [-1, 12], [0, -1]])
def test_reshape_to_constants(opset: int, target: list[int]) -> None:
    shape = np.array(target)
    if opset < 5:
        text = f"g (float[2,3,4] x) => (float[] y) {{ y = Reshape<shape = {target}>(x) }}"
        check_like_peer(parsed(text, opset), x=normal(2, 3, 4))
        return
    text = "g (float[2,3,4] x) => (float[] y) { y = Reshape(x, s) }"
    check_like_peer(parsed(text, opset, s=shape), x=normal(2, 3, 4))


def test_reshape_to_a_scalar() -> None:
    empty: Array = np.zeros(0, "int64")
    check_like_peer(
        parsed("g (float[1,1] x) => (float y) { y = Reshape(x, s) }", s=empty), x=normal(1, 1)
    )


def test_constants_that_are_joined_and_given_out() -> None:
    """TVM's importer makes a shape of them, in place of a tensor."""
    text = "g (float[2] x) => (z, y) { z = Neg(x) y = Concat<axis = -1>(s, s) }"
    check_like_peer(parsed(text, 9, s=np.array([18, 3])), x=normal(2))
