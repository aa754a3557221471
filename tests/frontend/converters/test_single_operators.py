"""OneHot, Celu and LpNormalization in all their attributes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_text import check_like_peer, normal, ours, parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import RunError, UnsupportedOperatorError


@pytest.mark.parametrize("axis", [-1, 0, 1, -2, 2])
def test_one_hot_along_every_axis(axis: int) -> None:
    model = parsed(
        f"g (int64[2,3] x) => (float[] y) {{ y = OneHot<axis = {axis}>(x, depth, values) }}",
        depth=np.array(5),
        values=np.array([0.5, -2], "float32"),
    )
    check_like_peer(model, x=np.array([[0, 4, -1], [-5, 5, -6]]))


def test_one_hot_of_float_indices() -> None:
    model = parsed(
        "g (float[4] x) => (float[] y) { y = OneHot(x, depth, values) }",
        depth=np.array([3.0], "float32"),
        values=np.array([1, 7], "float32"),
    )
    check_like_peer(model, x=np.array([0, 2, -3, 8], "float32"))


def test_one_hot_with_values_that_are_an_input() -> None:
    text = "g (int64[3] x, float[2] values) => (float[] y) { y = OneHot(x, depth, values) }"
    model = parsed(text, depth=np.array(4))
    check_like_peer(model, x=np.array([0, 3, -1]), values=normal(2))


@pytest.mark.parametrize(("axis", "dtype"), [(-1, "int64"), (0, "int32"), (1, "float")])
def test_one_hot_of_a_depth_that_a_run_has(axis: int, dtype: str) -> None:
    text = f"""g (int64[2,3] x, {dtype}[1] d) => (float[] y) {{
        y = OneHot<axis = {axis}>(x, d, values)
    }}"""
    model = parsed(text, values=np.array([0, 1], "float32"))
    depth = np.array([4], dtype.replace("float", "float32"))
    check_like_peer(model, x=np.array([[0, 3, -1], [-5, 4, 2]]), d=depth)


@pytest.mark.parametrize("depth", [-1, 2**40])
def test_a_depth_of_a_run_that_no_tensor_has(depth: int) -> None:
    text = "g (int64[3] x, int64[1] d) => (float[] y) { y = OneHot(x, d, values) }"
    model = parsed(text, values=np.array([0, 1], "float32"))
    with pytest.raises(RunError, match="depth <= "):
        ours(model, {"x": np.array([0, 1, 2]), "d": np.array([depth])})


@pytest.mark.parametrize("values", [[7.0], [0.0, 1.0, 2.0]])
def test_values_of_a_run_that_are_not_two_are_refused(values: list[float]) -> None:
    text = "g (int64[3] x, int64[1] d) => (float[] y) { y = OneHot(x, d, values) }"
    with pytest.raises(UnsupportedOperatorError, match="values must be two: off and on"):
        relay.frontend.from_onnx(parsed(text, values=np.array(values, "float32")))


def test_a_known_depth_below_one_is_refused() -> None:
    text = "g (int64[3] x) => (float[] y) { y = OneHot(x, d, values) }"
    model = parsed(text, values=np.array([0, 1], "float32"), d=np.array([-2]))
    with pytest.raises(UnsupportedOperatorError, match="a depth of -2 is not positive"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 2.5])
def test_celu(alpha: float) -> None:
    text = f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = Celu<alpha = {alpha}>(x) }}"
    check_like_peer(parsed(text), x=10 * normal(2, 3, 4))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(axis: int, p: int) -> None:
    text = f"""g (float[3,4,5] x) => (float[3,4,5] y) {{
        y = LpNormalization<axis = {axis}, p = {p}>(x)
    }}"""
    data = normal(3, 4, 5)
    data[1] = data[:, 2] = data[:, :, 3] = 0
    check_like_peer(parsed(text), x=data)
