"""What is left of Q and DQ where nothing in int8 reads a result."""

from __future__ import annotations

import numpy as np
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
