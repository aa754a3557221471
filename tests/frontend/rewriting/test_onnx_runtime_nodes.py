"""What ONNX Runtime's optimiser writes computes here what it computes there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_text import Array, assert_like, check_like_peer, normal, ort, ours, peers

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.rewriting.onnx_runtime_nodes import in_standard_nodes

IMAGE, ROWS, BYTES = normal(1, 4, 6, 5), normal(2, 3, 8), (np.arange(24) * 9).astype("uint8")


def model_of(body: str, inputs: str, opset: int = 17, **weights: Array) -> onnx.ModelProto:
    text = (
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> '
        f"g ({inputs}) => (y) {{ {body} }}"
    )
    model = onnx.parser.parse_model(text.replace("ms.", "com.microsoft."))
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()
    )
    return model


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize(
    ("activation", "numbers"),
    [("Relu", ""), ("LeakyRelu", "0.3"), ("Clip", "-0.5, 1.5"), ("HardSigmoid", "0.3, 0.4")],
)
def test_a_fused_convolution(activation: str, numbers: str, opset: int) -> None:
    """Its fourth input is added before the activation."""
    params = f", activation_params = [{numbers}]" if numbers else ""
    body = (
        f'a = ms.FusedConv <activation = "{activation}", pads = [1, 1, 1, 1]{params}> (x, w, b) '
        'c = ms.FusedConv <activation = "Relu", pads = [1, 1, 1, 1]> (a, w, b, x) '
        "y = ms.FusedConv <pads = [1, 1, 1, 1]> (c, w, , a)"
    )
    weights = {"w": normal(4, 4, 3, 3, seed=1), "b": normal(4, seed=2)}
    check_like_peer(model_of(body, "float[1,4,6,5] x", opset, **weights), x=IMAGE)


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        (((2, 3, 4), (2, 5, 4)), "transB = 1, alpha = 0.5"),
        (((4, 3), (4, 5)), "transA = 1"),
        (((3, 2, 4), (2, 4, 5)), "transBatchA = 1"),
        (((3, 2, 5, 4), (6, 2, 5, 4)), "transBatchA = 1, transBatchB = 1, transB = 1"),
    ],
)
def test_a_fused_product(shapes: tuple[tuple[int, ...], ...], attributes: str) -> None:
    left, right = (normal(*shape, seed=place) for place, shape in enumerate(shapes))
    inputs = ", ".join(
        f"float[{','.join(map(str, part.shape))}] {name}"
        for name, part in (("a", left), ("b", right))
    )
    check_like_peer(model_of(f"y = ms.FusedMatMul <{attributes}> (a, b)", inputs), a=left, b=right)


NODES = {
    "a dense layer": 'y = ms.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.2> (f, m)',
    "swish": "y = ms.QuickGelu <alpha = 1.0> (x)",
    "the default alpha": "y = ms.QuickGelu (x)",
    "skip": "y = ms.SkipLayerNormalization (x, x, g, h)",
    "skip, no offset": "y = ms.SkipLayerNormalization <epsilon = 0.1> (x, s, g)",
    "skip, bias": "y = ms.SkipLayerNormalization (x, s, g, , h)",
    "skip, sum": "a, , , t = ms.SkipLayerNormalization (x, s, g, h) y = Sub(t, a)",
    "RMS": "y = SimplifiedLayerNormalization (x, g)",
    "skip RMS": "a, , , t = ms.SkipSimplifiedLayerNormalization (x, s, g, h) y = Mul(t, a)",
    "a product by its rows": "d = ms.Gelu (x) y = ms.FusedMatMul <transB = 1> (d, s)",
}


@pytest.mark.parametrize("name", NODES)
def test_other_fused_nodes(name: str) -> None:
    body = ("f = Flatten <axis = 2> (x) " if "(f" in NODES[name] else "") + NODES[name]
    weights = {"m": normal(8, 4, seed=1), "g": normal(8, seed=2), "h": normal(8, seed=3)}
    weights["s"] = normal(2, 3, 8, seed=4)
    read = {name for node in model_of(body, "float[2,3,8] x").graph.node for name in node.input}
    used = {name: weights[name] for name in sorted(read & weights.keys())}
    check_like_peer(model_of(body, "float[2,3,8] x", **used), x=ROWS)


def test_a_tensor_that_has_the_name_of_a_part() -> None:
    """The second tensor of QuickGelu's body would be q/1_0."""
    model = model_of("a = Neg (x) q = ms.QuickGelu (x) y = Add (q, a)", "float[2,3,8] x")
    model.graph.node[0].output[0] = model.graph.node[2].input[1] = "q/1_0"
    check_like_peer(model, x=ROWS)


def test_a_result_of_the_network_has_a_rank() -> None:
    model = model_of("y = Relu (x) z = ms.FusedMatMul <transB = 1> (x, y)", "float[2,3,8] x")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("z"))
    types = [node.op_type for node in in_standard_nodes(model).graph.node]
    assert types == ["Relu", "Transpose", "MatMul", "Identity"]


def test_layer_normalization_in_an_older_opset() -> None:
    """ONNX Runtime writes the operator of opset 17 into whatever file it fuses."""
    body = "y = LayerNormalization (x, g, h)"
    model = model_of(body, "float[2,3,8] x", opset=13, g=normal(8), h=normal(8, seed=1))
    check_like_peer(model, x=ROWS)


INTEGERS = {
    "channels last pool": "y = ms.NhwcMaxPool <kernel_shape = [2, 2], strides = [1, 2]> (q)",
    "channels last mean": (
        "y = ms.QLinearAveragePool <kernel_shape = [2, 2], channels_last = 1> (q, s, z, s, z)"
    ),
    "channels last means": ("y = ms.QLinearGlobalAveragePool <channels_last = 1> (q, s, z, s, z)"),
    "channels last": (
        "y = ms.QLinearConv <channels_last = 1, pads = [1, 0, 1, 0]> (q, s, z, w, s, n, u, z)"
    ),
    "channels first": "y = ms.QLinearConv <channels_last = 0> (q, s, z, v, s, n, u, z)",
    "where": "y = ms.QLinearWhere (c, q, s, z, q, u, z, u, z)",
    "integer product": "y = ms.MatMulIntegerToFloat (q, m, s, t, z, k, b)",
    "integer product without zeros": "y = ms.MatMulIntegerToFloat (q, m, s, s)",
    "dynamic product": "f = Cast <to = 1> (q) y = ms.DynamicQuantizeMatMul (f, m, t, k, b)",
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_nodes(name: str) -> None:
    rng = np.random.default_rng(3)
    weights = {
        "s": np.float32(0.02),
        "u": np.float32(0.05),
        "t": np.array([0.01, 0.02, 0.03], "float32"),
        "z": np.uint8(100),
        "n": np.int8(0),
        "k": np.array([3, 0, 1], "int8"),
        "w": rng.integers(-20, 20, (4, 2, 3, 1), "int8"),
        "v": rng.integers(-20, 20, (4, 3, 2, 1), "int8"),
        "m": rng.integers(-20, 20, (2, 3), "int8"),
        "b": np.array([1, 2, 3], "float32"),
        "c": rng.random((1, 3, 4, 2)) > 0.5,
    }
    body = INTEGERS[name]
    model = model_of(body, "uint8[1,3,4,2] q")
    used = {name for node in model.graph.node for name in node.input}
    model = model_of(body, "uint8[1,3,4,2] q", **{k: v for k, v in weights.items() if k in used})
    data = {"q": BYTES.reshape(1, 3, 4, 2)}
    (mine,), (theirs,) = ours(model, data), peers(model, data)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    if theirs.dtype == np.float32:
        assert_like([mine], [theirs])
    assert np.abs(mine.astype("float32") - theirs.astype("float32")).max() <= 1


def test_no_zero_point_of_the_result() -> None:
    """The sum has the type of its inputs."""
    weights = {"s": np.float32(0.1), "z": np.int8(0)}
    model = model_of("y = ms.QLinearAdd (q, s, z, q, s, z, s)", "int8[2,3] q", **weights)
    check_like_peer(model, q=np.arange(-3, 3, dtype="int8").reshape(2, 3))


@pytest.mark.parametrize(
    ("name", "saved"), [("BASIC", {"BatchNormalization"}), ("EXTENDED", {"FusedConv", "QuickGelu"})]
)
def test_a_network_that_onnx_runtime_saved(name: str, saved: set[str], tmp_path: Path) -> None:
    body = (
        "a = Conv <pads = [1, 1, 1, 1]> (x, w, b) c = LeakyRelu (a) e = Relu (c) "
        "d = Conv <pads = [1, 1, 1, 1]> (e, w, b) s = Sigmoid (d) y = Mul (d, s)"
    )
    if "BatchNormalization" in saved:
        body = body.replace("c = LeakyRelu (a)", "c = BatchNormalization (x, b, b, b, p)")
    weights = {"w": normal(4, 4, 3, 3, seed=1), "b": normal(4, seed=2), "p": np.ones(4, "float32")}
    model = model_of(body, "float[1,4,6,5] x", **weights)
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{name}")
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    ort.InferenceSession(model.SerializeToString(), options)
    optimised = onnx.load(tmp_path / "saved.onnx")
    assert saved <= {node.op_type for node in optimised.graph.node}
    assert_like(ours(optimised, {"x": IMAGE}), peers(model, {"x": IMAGE}))


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ('ms.FusedConv <activation = "Wobble"> (x, w)', "com.microsoft::FusedConv"),
        ("ms.CDist (x, w)", "com.microsoft::CDist"),
        ("com.microsoft.nchwc.Conv (x, w)", "save it at level extended or below"),
    ],
)
def test_what_stays_refused(node: str, told: str) -> None:
    model = model_of(f"y = {node}", "float[1,4,6,5] x", w=normal(4, 4, 1, 1))
    with pytest.raises(UnsupportedOperatorError, match=told) as raised:
        relay.frontend.from_onnx(model)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("opset", [10, 11, 12])
@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = ms.DequantizeLinear <axis = 0> (x, s, z)", "uint8[3,8] x"),
        ("y = ms.DynamicQuantizeMatMul (x, w, t, k)", "float[3,8] x"),
    ],
)
def test_files_older_than_the_operator(body: str, inputs: str, opset: int) -> None:
    """ONNX Runtime's own operators know an axis, and quantise at run time, in every opset."""
    rng = np.random.default_rng(8)
    weights = {
        "s": np.array([0.1, 0.2, 0.3], "float32"),
        "z": np.array([100, 3, 4], "uint8"),
        "w": rng.integers(0, 255, (8, 5), "uint8"),
        "t": np.array([0.1], "float32"),
        "k": np.array([100], "uint8"),
    }
    used = {name: value for name, value in weights.items() if f", {name}" in body}
    model = model_of(body, inputs, opset=opset, **used)
    data = rng.integers(0, 255, (3, 8), "uint8")
    check_like_peer(model, x=data if inputs.startswith("u") else data.astype("float32"))
