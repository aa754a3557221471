"""What is left of Q and DQ where nothing in int8 reads a result."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper
from onnx_text import parsed

from tvm_neocpu.quantizing.rewriting.write_qdq import _drop_round_trips


def test_steps_that_an_output_or_a_branch_reads_stay() -> None:
    """A model may have Q and DQ of its own, whose steps stand elsewhere too."""
    model = parsed(
        """g (float[2,3] x, bool b) => (float[2,3] y, float kept, float z) {
            made = MatMul(x, w)
            codes = QuantizeLinear(made, kept, zero)
            y = DequantizeLinear(codes, inner, zero)
            z = If(b) <
                then_branch = one () => (float p) { p = Identity(inner) },
                else_branch = two () => (float q) { q = Neg(inner) }
            >
        }""",
        13,
    )
    values = {"w": np.eye(3, dtype="float32"), "zero": np.uint8(0)}
    values |= {"kept": np.float32(0.5), "inner": np.float32(0.5)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()
    )
    _drop_round_trips(model, [], ["MatMul"])
    assert {tensor.name for tensor in model.graph.initializer} == {"w", "kept", "inner"}


def test_an_output_that_others_read_too_keeps_its_name_for_all() -> None:
    model = parsed(
        """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
            made = MatMul(x, w)
            codes = QuantizeLinear(made, step, zero)
            y = DequantizeLinear(codes, step, zero)
            z = Relu(y)
        }""",
        13,
    )
    values = {"w": np.eye(3, dtype="float32"), "zero": np.uint8(0), "step": np.float32(0.5)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()
    )
    _drop_round_trips(model, [], ["MatMul"])
    onnx.checker.check_model(model)
    assert [(node.op_type, *node.input, *node.output) for node in model.graph.node] == [
        ("MatMul", "x", "w", "y"),
        ("Relu", "y", "z"),
    ]
