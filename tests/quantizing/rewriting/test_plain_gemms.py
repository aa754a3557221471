"""Dense layers with factors and with addends of any shape: the same function, plainly written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_text import normal, parsed, peers
from quantized_onnx import expected

from tvm_neocpu.quantizing.onnx_graphs import weights_of
from tvm_neocpu.quantizing.quantize_model import Settings, quantize_model
from tvm_neocpu.quantizing.rewriting.plain_gemms import with_plain_gemms

FACTORS = [{}, {"alpha": 0.5}, {"beta": 2.0}, {"alpha": 0.5, "beta": 2.0, "transB": 1}]
ADDENDS = {
    "none": None,
    "number": (),
    "one": (1,),
    "row": (5,),
    "matrix of a row": (1, 5),
    "column": (3, 1),
    "matrix": (3, 5),
}


def gemm(addend: str, is_computed: bool = False, **factors: float) -> onnx.ModelProto:
    shape = ADDENDS[addend]
    names = "x, w" if shape is None else "x, w, c"
    words = ", ".join(f"{name} = {value}" for name, value in factors.items())
    head = "c = Neg (k)" if is_computed else ""
    layer = f"y = Gemm {f'<{words}>' if words else ''} ({names})"
    text = f"g (float[3,8] x) => (float[3,5] y) {{ {head} {layer} }}"
    weight = normal(5, 8) if "transB" in factors else normal(8, 5)
    if shape is None:
        return parsed(text, w=weight)
    return parsed(text, w=weight, **{"k" if is_computed else "c": normal(*shape, seed=1)})


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("addend", ADDENDS)
@pytest.mark.parametrize("is_computed", [False, True])
def test_the_function_is_the_same(
    addend: str, is_computed: bool, factors: dict[str, float]
) -> None:
    model = gemm(addend, is_computed and ADDENDS[addend] is not None, **factors)
    plain, x = with_plain_gemms(model), {"x": normal(3, 8, seed=2)}
    np.testing.assert_allclose(peers(plain, x)[0], peers(model, x)[0], rtol=1e-5, atol=1e-6)
    (found,) = (node for node in plain.graph.node if node.op_type == "Gemm")
    assert {entry.name for entry in found.attribute} <= {"transB"}
    if len(found.input) > 2:
        assert list(weights_of(plain.graph)[found.input[2]].dims) == [5]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("addend", ["number", "row", "matrix"])
def test_quantised_it_is_near(addend: str, per_channel: bool) -> None:
    """A factor of a half was lost: the result was off by half of itself.

    Unoptimised, ONNX Runtime computes it in floats: its products of integers saturate without VNNI.
    """
    model = gemm(addend, alpha=0.5, beta=2.0)
    samples = [{"x": normal(3, 8, seed=seed)} for seed in range(8)]
    quantised = quantize_model(model, "net", samples, Settings(per_channel=per_channel)).model
    found, wanted = expected(quantised, samples[0])[0], expected(model, samples[0])[0]
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
