"""Slopes of PRelu, and float32 activations against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_node import assert_same, check_node, image, node_model, onnx_runtime, ours

from tvm_neocpu import pipeline, relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph

MakeModel = Callable[..., onnx.ModelProto]
CPU = Cpu("skylake-avx512", AVX512, cores=2)

X = image(2, 3, 4, 5)


@pytest.mark.parametrize("slope", [(1,), (), (5,), (3, 1, 1), (1, 3, 1, 1), (3, 4, 5), (4, 5)])
def test_a_slope_broadcasts_from_the_right(slope: tuple[int, ...]) -> None:
    check_node(node_model("PRelu", [X], [image(*slope)], opset=16), X)


def test_a_slope_of_opset_6_belongs_to_the_channels() -> None:
    old = node_model("PRelu", [X], [image(3)], opset=6)
    new = node_model("PRelu", [X], [image(3).reshape(3, 1, 1)], opset=16)
    assert_same(ours(old, [X]), onnx_runtime(new, [X]))


def test_a_slope_is_applied_in_the_layout_of_the_convolution(make_model: MakeModel) -> None:
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("PRelu", ["c", "slope"], ["p"]),
        helper.make_node("Conv", ["p", "v"], ["out"], pads=[1, 1, 1, 1]),
    ]
    model = make_model(
        nodes, (1, 32, 8, 8), {"w": (32, 32, 3, 3), "slope": (32, 1, 1), "v": (32, 32, 3, 3)}
    )
    mod, _ = relay.frontend.from_onnx(model)
    folded = pipeline.fold(mod, CPU)
    plan = choose_plan(ExtractConvGraph(CPU)(folded), CPU)
    # At the two ends of the network.
    assert count_transforms(pipeline.apply_plan(folded, plan, CPU)) == 2


def test_slopes_of_what_is_no_number() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-40, -1e-40, 0], np.float32)
    model = node_model("PRelu", [odd], [np.array([0.25], np.float32)], opset=16)
    np.testing.assert_array_equal(*ours(model, [odd]), *onnx_runtime(model, [odd]))


def test_a_slope_of_more_axes_than_its_input_is_refused() -> None:
    model = node_model("PRelu", [X[0, 0]], [image(3, 4, 5)], opset=16)
    with pytest.raises(UnsupportedOperatorError, match="does not broadcast"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["Softplus", "Mish"])
def test_small_results_keep_their_digits(kind: str, dtype: str) -> None:
    """Where 1 + e^x rounds to 1 the results are small, and no difference shows that they are 0."""
    x = np.concatenate([np.linspace(-80, 30, 401), [0.0, -0.0, np.inf, np.nan]]).astype(dtype)
    (found,) = ours(node_model(kind, [x], opset=18 if kind == "Mish" else 1), [x])
    wide = x.astype(np.longdouble)
    expected = np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide)))
    if kind == "Mish":
        expected = wide * np.tanh(expected)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected.astype(dtype), rtol=16 * np.finfo(dtype).eps)
