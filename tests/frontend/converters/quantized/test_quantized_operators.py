"""ONNX Runtime's own operators over quantised tensors, each within one step of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_text import Array, ours, peers
from quantized_onnx import QDQ, QOPERATOR, images, network, quantized

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake").cpu

X, Y = "x, sx, zx", "sy, zy"
NODES = {
    "sum": f"QLinearAdd({X}, w, sw, zw, {Y})",
    "product": f"QLinearMul({X}, w, sw, zw, {Y})",
    "sum with itself": f"QLinearAdd({X}, {X}, {Y})",
    "sigmoid": f"QLinearSigmoid({X}, tiny, zy)",
    "leaky ReLU": f"QLinearLeakyRelu <alpha = 0.2> ({X}, {Y})",
    "softmax": f"QLinearSoftmax <axis = 3, opset = 13> ({X}, tiny, zy)",
    "average pool": f"QLinearAveragePool <kernel_shape = [3, 2], strides = [2, 1]> ({X}, {Y})",
    "padded average pool": (
        f"QLinearAveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({X}, {Y})"
    ),
    "padding counts": (
        "QLinearAveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1>"
        f" ({X}, {Y})"
    ),
    "global pool": f"QLinearGlobalAveragePool ({X}, {Y})",
    "concat": f"QLinearConcat <axis = 2> ({Y}, {X}, w, sw, zw)",
    "gemm": f"QGemm (flat, sx, zx, matrix, sm, zm, c, {Y})",
    "gemm, turned, scaled": (
        f"QGemm <transB = 1, alpha = 0.5> (flat, sx, zx, turned, sm, zm, c, {Y})"
    ),
    "gemm to floats": "QGemm (flat, sx, zx, matrix, sm, zm)",
}


def model_of(node: str, dtype: str) -> onnx.ModelProto:
    """A model of one node over an image x of 1x3x6x5."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(4)
    limits = np.iinfo(kind)
    # Small weights: without VNNI, ONNX Runtime's products of bytes saturate.
    matrix = rng.integers(-50, 50, (90, 4), "int8")
    weights = {
        "w": rng.integers(limits.min, limits.max, (1, 3, 1, 5), kind, endpoint=True),
        "sx": np.float32(0.05),
        "zx": np.array(limits.max - 100, kind),
        "sw": np.float32(0.03),
        "zw": np.array(limits.min + 60, kind),
        "sy": np.float32(0.11),
        "zy": np.array(limits.max - 90, kind),
        "tiny": np.float32(1 / 256),
        "matrix": matrix,
        "turned": np.ascontiguousarray(matrix.T),
        "sm": np.linspace(0.001, 0.002, 4, dtype="float32"),
        "zm": np.zeros(4, "int8"),
        "c": rng.integers(-5000, 5000, 4, "int32"),
        "shape": np.array([1, 90]),
    }
    before = "flat = Reshape(x, shape) " if "flat" in node else ""
    output = dtype if "sy" in node or "zy" in node else "float"
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> '
        f"g ({dtype}[1,3,6,5] x) => ({output}[] y) "
        f"{{ {before} y = com.microsoft.{node} }}"
    )
    model = onnx.parser.parse_model(text)
    used = {name for each in model.graph.node for name in each.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name)
        for name, value in weights.items()
        if name in used
    )
    return model


def image(dtype: str) -> Array:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    return rng.integers(limits.min, limits.max, (1, 3, 6, 5), dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("case", NODES)
def test_within_one_step_of_onnx_runtime(case: str, dtype: str) -> None:
    model, data = model_of(NODES[case], dtype), {"x": image(dtype)}
    (mine,), (theirs,) = ours(model, data), peers(model, data)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    if mine.dtype == np.float32:
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        return
    steps = np.abs(mine.astype("int32") - theirs.astype("int32"))
    assert steps.max() <= 1
    assert (steps == 0).mean() > 0.9


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 3, 100])
@pytest.mark.parametrize(
    "node",
    [
        "QLinearAdd (x, half, z, w, half, z, one, zy)",
        "QLinearMul (x, half, z, w, one, z, one, zy)",
        "QLinearAveragePool <kernel_shape = [2, 1]> (x, one, z, one, zy)",
    ],
)
def test_ties_are_rounded_behind_the_zero_point(node: str, zero: int, dtype: str) -> None:
    """Scales that are powers of two put a half of the results exactly between two codes."""
    model = model_of(node, dtype)
    scalars = {"half": np.float32(0.5), "one": np.float32(1)}
    zeros = {"z": np.array(9, dtype), "zy": np.array(zero, dtype)}
    del model.graph.initializer[:]
    limits = np.iinfo(dtype)
    w = np.random.default_rng(5).integers(limits.min, limits.max, (1, 3, 1, 5), dtype)
    read = {*model.graph.node[0].input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name)
        for name, value in {**scalars, **zeros, "w": w}.items()
        if name in read
    )
    data = {"x": image(dtype)}
    np.testing.assert_array_equal(ours(model, data)[0], peers(model, data)[0])


def test_a_zero_point_of_another_shape_is_one_line() -> None:
    model = model_of(NODES["sum"], "uint8")
    (zero,) = (each for each in model.graph.initializer if each.name == "zy")
    zero.CopyFrom(onnx.numpy_helper.from_array(np.array([3, 5], "uint8"), "zy"))
    with pytest.raises(UnsupportedOperatorError, match=r"a zero point \[2\] with a scale"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("node", [f"QLinearConcat ({Y}, {X})", f"QLinearSoftmax ({X}, {Y})"])
def test_an_attribute_that_is_missing(node: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"attribute (axis|opset) is missing"):
        relay.frontend.from_onnx(model_of(node, "uint8"))


@pytest.mark.parametrize(
    ("graph", "shapes"),
    [
        (
            """g (float[1,16,40] x) => (float[1,24,20] y) {
                a = Conv<kernel_shape = [3], pads = [1, 1]>(x, w)
                b = Relu(a)
                y = Conv<kernel_shape = [5], pads = [2, 2], strides = [2]>(b, v)
            }""",
            {"w": (32, 16, 3), "v": (24, 32, 5)},
        ),
        (
            """g (float[1,4,8,8,8] x) => (float[1,8,4,4,4] y) {
                a = Conv<kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1]>(x, w)
                y = MaxPool<kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1],
                    strides = [2, 2, 2]>(a)
            }""",
            {"w": (8, 4, 3, 3, 3)},
        ),
        (
            """g (float[2,4,20,16] x) => (float[2,4,20,20] y) {
                t = Transpose<perm = [0, 1, 3, 2]>(x)
                y = MatMul(x, t)
            }""",
            {},
        ),
    ],
)
def test_files_of_both_forms_take_the_same_way(graph: str, shapes: dict[str, Any]) -> None:
    """Signals, volumes, and products of two computed tensors: in integers, without a fallback."""
    drawn = network(graph, **shapes)
    for form in (QDQ, QOPERATOR):
        model = quantized(drawn, form=form)
        mod, _ = relay.frontend.from_onnx(model)
        assert FindFallbacks(CPU)(fold(mod, CPU)).fallbacks == ()
        data = images(model, 7)
        (mine,), (theirs,) = ours(model, data), peers(model, data)
        step = np.abs(theirs).max() / 255
        assert np.abs(mine - theirs).max() < 2 * step
        assert (np.abs(mine - theirs) > step / 2).mean() < 0.05
