"""Elementwise operators of ours against ONNX Runtime and ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_node import Array, Case, check_together, node_model, ours
from onnx_text import check_like_peer, parsed

from tvm_neocpu import relay

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -2.5, 1e-40, 3e38, 88, -100], "float32"
)


def _by_reference(inputs: list[Array], op_type: str, opset: int, **attributes: object) -> None:
    """For what ONNX Runtime has no kernel."""
    model = node_model(op_type, inputs, opset=opset, **attributes)
    (found,) = ours(model, inputs)
    feeds = {f"x{place}": array for place, array in enumerate(inputs)}
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_powers_of_mixed_types() -> None:
    rng = np.random.default_rng(6)
    types = ("float32", "int32", "int64")
    bases = {kind: np.abs(rng.standard_normal((3, 1)) * 3).astype(kind) for kind in types}
    powers = {kind: rng.integers(0, 4, (4,)).astype(kind) for kind in types}
    check_together(
        [Case("Pow", [bases[one], powers[other]]) for one in types for other in types], opset=15
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_cubes(dtype: str) -> None:
    """Of any type of exponent; one of a higher rank adds axes."""
    with np.errstate(over="ignore"):
        x = np.concatenate([SPECIAL, np.float32([0.02, -7.25, 40.3])]).astype(dtype)
    exponents = [np.array(3, dtype), np.array([3], dtype), np.array([[3]], dtype), np.array(3)]
    check_together([Case("Pow", [x], [each]) for each in exponents], opset=15)


def test_a_cube_calls_no_function() -> None:
    """``powf`` takes ten times as long as two products."""
    x = np.ones((2, 3), "float32")
    mod, _ = relay.frontend.from_onnx(node_model("Pow", [x], [np.float32([3])], opset=15))
    assert "R.power" not in mod.script() and mod.script().count("R.multiply") == 2


def test_negative_exponents_of_integers() -> None:
    base = np.array([1, -1, -1, 2, -3, 0], "int64")
    exponent = np.array([-3, -3, -4, -1, 3, 5], "int64")
    (found,) = ours(node_model("Pow", [base, exponent]), [base, exponent])
    assert found.tolist() == [1, -1, 1, 0, -27, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_floor_modulo_of_floats(dtype: str) -> None:
    x = np.array([5, -5, 5, -5, 0, 1, -1, 7.5, -0.5], dtype)
    y = np.array([3, 3, -3, -3, 3, np.inf, np.inf, -2, 0.25], dtype)
    _by_reference([x, y], "Mod", 13, fmod=0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_remainder_of_floats_as_c_has_it(dtype: str) -> None:
    with np.errstate(over="ignore"):
        values = np.concatenate([SPECIAL.astype("float64"), [3e-8, -7.25, 1e4]]).astype(dtype)
    with np.errstate(invalid="ignore"):
        check_together([Case("Mod", [values[:, None], values], (), {"fmod": 1})], opset=13)


def test_signs_infinities_and_booleans() -> None:
    flags = np.array([True, False, True])
    check_together(
        [
            Case("Sign", [SPECIAL]),
            Case("Sign", [SPECIAL.astype("float64")]),
            Case("Sign", [np.array([0, 1, 9], "uint8")]),
            Case("Equal", [flags, ~flags]),
            Case("Equal", [flags, flags]),
            *(
                Case("IsInf", [SPECIAL], (), {"detect_positive": one, "detect_negative": other})
                for one in (0, 1)
                for other in (0, 1)
            ),
        ]
    )


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_unsigned_numbers(direction: str) -> None:
    named = {"direction": direction}
    check_together(
        [
            Case(
                "BitShift",
                [np.array([16, 4, 255], dtype), np.array([1, 2, 7], dtype)],
                (),
                named,
            )
            for dtype in ("uint8", "uint32", "uint64")
        ]
    )


def test_shifts_that_leave_no_bit() -> None:
    x = np.array([16, 1, -7, -7, 5], "int32")
    y = np.array([32, -1, 40, 1, 2], "int32")
    left = ours(node_model("BitShift", [x, y], opset=28, direction="LEFT"), [x, y])[0]
    right = ours(node_model("BitShift", [x, y], opset=28, direction="RIGHT"), [x, y])[0]
    assert left.tolist() == [0, 0, 0, -14, 20]
    assert right.tolist() == [0, 0, -1, -4, 1]


def test_bits_as_another_type() -> None:
    x = np.array([1.0, -2.5, 0.0], "float32")
    model = node_model("BitCast", [x], opset=26, to=TensorProto.INT32)
    np.testing.assert_array_equal(ours(model, [x])[0], x.view("int32"))


@pytest.mark.parametrize("target", ["uint8", "int8", "uint16", "int16"])
def test_floats_as_short_integers(target: str) -> None:
    """Of what int32 holds the low bits count; NaN and infinities are 0, as on ONNX Runtime."""
    values = [0.0, -0.9, 1.9, 127.5, 128, 255.9, 256, -1, -129, 70000, -70000, np.inf, -np.inf]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    data = np.array([*values, np.nan], "float32")
    check_together([Case("Cast", [data], attributes={"to": kind})])


def test_what_is_not_greater_than_no_number() -> None:
    """ "Not greater" is true of NaN, "less or equal" is not."""
    model = parsed("""g (float[11] x, float[11] z) => (bool[] a, bool[] b) {
        g = Greater(x, z) a = Not(g)
        l = LessOrEqual(x, z) c = Not(l) d = Not(c) b = Not(d)
    }""")
    check_like_peer(model, x=SPECIAL, z=np.zeros(11, "float32"))
