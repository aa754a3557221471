"""Files of half precision: computed in single precision, with their own types outside."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from ml_dtypes import bfloat16
from onnx import TensorProto, parser
from onnx_text import ours, parsed, peers

from tvm_neocpu import relay
from tvm_neocpu.frontend.rewriting.single_precision import in_single_precision
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").cpu
RNG = np.random.default_rng(0)
# Of the largest value: half precision has eleven bits.
TOLERANCE = 2e-3

NETWORK = """
net (float16[1,4,6,6] x, bool pick) => (float16[1,8,6,6] y, float16[1,8] z, float16[1,4,6,6] same)
{
    c = Conv<pads = [1, 1, 1, 1]>(x, w, b)
    y = Mul(c, scale)
    p = GlobalAveragePool(y)
    f = Flatten(p)
    wide = Cast<to = 1>(f)
    narrow = Cast<to = 10>(wide)
    q = MatMul(narrow, m)
    z = If(pick) <
        then_branch = yes () => (float16[1,8] r) { o = Sigmoid(q) r = Add(o, f) },
        else_branch = no () => (float16[1,8] t) { t = Relu(q) }>
    same = Identity(x)
}
"""


def network() -> onnx.ModelProto:
    shapes = {"w": (8, 4, 3, 3), "b": (8,), "m": (8, 8), "scale": (8, 1, 1)}
    weights = {name: RNG.normal(size=shape) / 4 for name, shape in shapes.items()}
    halves = {name: value.astype("float16") for name, value in weights.items()}
    return parsed(NETWORK, **halves)


@pytest.mark.parametrize("pick", [True, False])
def test_numbers_and_types(pick: bool) -> None:
    model = network()
    inputs = {"x": RNG.normal(size=(1, 4, 6, 6)).astype("float16"), "pick": np.array(pick)}
    mod, params = relay.frontend.from_onnx(model)
    module = relay.build(mod, target="llvm", params=params, fallback="error")["default"](tvm.cpu())
    module.set_input(**inputs)
    module.run()
    for at, expected in enumerate(peers(model, inputs)):
        found = module.get_output(at).numpy()
        assert found.dtype == expected.dtype == np.float16
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_the_file_keeps_its_types_and_templates_take_it() -> None:
    model = network()
    before = model.SerializeToString()
    single = in_single_precision(model)
    onnx.checker.check_model(single, full_check=True)
    assert model.SerializeToString() == before
    outside = [*single.graph.input, *single.graph.output]
    assert [value.name for value in outside] == ["x", "pick", "y", "z", "same"]
    assert {value.type.tensor_type.elem_type for value in outside} == {
        TensorProto.FLOAT16,
        TensorProto.BOOL,
    }
    assert {tensor.data_type for tensor in single.graph.initializer} == {TensorProto.FLOAT}
    folded = fold(relay.frontend.from_onnx(model)[0], CPU)
    assert FindFallbacks(CPU)(folded).fallbacks == ()


def test_a_cast_to_half_precision_still_rounds() -> None:
    single = in_single_precision(network())
    casts = [node for node in single.graph.node if node.op_type == "Cast"]
    to_half = [node for node in casts if node.attribute[0].i == TensorProto.FLOAT16]
    assert len(to_half) == 1 + 3  # the file's own and those of its three outputs
    own = next(node for node in to_half if node.input[0] == "wide")
    assert [node.op_type for node in single.graph.node if own.output[0] in node.input] == ["Cast"]


@pytest.mark.parametrize(
    "text",
    [
        "agraph (float[1,4] x) => (float[1,4] y) { y = Relu(x) }",
        "agraph (float16[1,4] x) => (float16[1,4] y) { y = Relu(x) }",
        "agraph (float[1,4] x, float[4,4] w) => (float[1,4] y) { y = MatMul(x, w) }",
        "agraph (bfloat16[1,4] x) => (int16[1,4] y) { y = BitCast<to = 5>(x) }",
    ],
)
def test_other_files_stay_as_they_are(text: str) -> None:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    assert in_single_precision(model) is model


BF16_NETWORK = """
net (bfloat16[1,4,6,6] x) => (bfloat16[1,4,6,6] y, bfloat16[1,4,1,1] z, bfloat16[1,4,6,6] g)
{
    c = Conv<pads = [1, 1, 1, 1]>(x, w)
    n = InstanceNormalization(c, scale, b)
    y = LRN<size = 3>(n)
    p = GlobalAveragePool(y)
    z = Sigmoid(p)
    g = Gelu(n)
}
"""


def test_a_file_of_bf16() -> None:
    """ONNX Runtime has no such convolution: the oracle has the file's numbers in float32."""
    shapes = {"w": (4, 4, 3, 3), "scale": (4,), "b": (4,)}
    weights = {name: RNG.normal(size=shape).astype(bfloat16) for name, shape in shapes.items()}
    x = RNG.normal(size=(1, 4, 6, 6)).astype(bfloat16)
    singles = {name: value.astype("float32") for name, value in weights.items()}
    oracle = parsed(BF16_NETWORK.replace("bfloat16", "float"), opset=20, **singles)
    mod, params = relay.frontend.from_onnx(parsed(BF16_NETWORK, opset=20, **weights))
    module = relay.build(mod, target="llvm", params=params, fallback="error")["default"](tvm.cpu())
    module.set_input(x=x)
    module.run()
    for at, expected in enumerate(peers(oracle, {"x": x.astype("float32")})):
        found = module.get_output(at).numpy()
        assert found.dtype == bfloat16
        np.testing.assert_allclose(found.astype("float32"), expected, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("op_type", ["ReduceMean", "Relu", "Exp", "GlobalAveragePool"])
def test_bf16_without_a_heavy_operator(op_type: str) -> None:
    text = f"net (bfloat16[1,4,6,6] x) => (bfloat16[N,C,H,W] y) {{ y = {op_type}(x) }}"
    x = RNG.normal(size=(1, 4, 6, 6)).astype(bfloat16)
    (found,) = ours(parsed(text), {"x": x})
    (expected,) = peers(parsed(text.replace("bfloat16", "float")), {"x": x.astype("float32")})
    np.testing.assert_allclose(found.astype("float32"), expected, rtol=2**-8, atol=1e-5)
