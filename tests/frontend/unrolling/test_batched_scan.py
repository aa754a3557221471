"""Scan of opset 8, whose tensors have a batch, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_text import check_like_peer, normal, parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

# Running sums and their products with the steps; the second sequence may go backwards.
SCAN = """g (float[3,2] h, float[3,4,2] x, float[3,4] f) => (float[3,2] s, float[3,4,2] y) {{
    s, y = Scan <num_scan_inputs = 2{directions}, body = b (float[2] sum, float[2] e, float k)
        => (float[2] next, float[2] out) {{
            next = Add (sum, e)
            scaled = Mul (next, k)
            out = Mul (scaled, two)
        }}> ({lengths}, h, x, f)
}}"""


def scan(lengths: list[int] | None = None, backward: bool = False) -> onnx.ModelProto:
    directions = ", directions = [0, 1]" if backward else ""
    text = SCAN.format(lengths="" if lengths is None else "n", directions=directions)
    weights = {"two": np.float32(2)}
    if lengths is not None:
        weights["n"] = np.array(lengths, "int64")
    return parsed(text, opset=8, **weights)


@pytest.mark.parametrize("lengths", [None, [4, 1, 3]])
@pytest.mark.parametrize("backward", [False, True])
def test_every_image_has_steps_of_its_own(lengths: list[int] | None, backward: bool) -> None:
    """Behind its last step a sequence gives zeros; backward it begins at that step."""
    given = {"h": normal(3, 2), "x": normal(3, 4, 2, seed=1), "f": normal(3, 4, seed=2)}
    check_like_peer(scan(lengths, backward), **given)


@pytest.mark.parametrize("lengths", [[4, 5, 1], [4, 0, 1], [4, 4]])
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(UnsupportedOperatorError, match="sequence_lens must be 3 numbers from 1 to"):
        relay.frontend.from_onnx(scan(lengths))


def test_lengths_that_only_a_run_knows_are_refused() -> None:
    model = scan([4, 4, 4])
    kept = [tensor for tensor in model.graph.initializer if tensor.name != "n"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.input.append(onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [3]))
    with pytest.raises(UnsupportedOperatorError, match="needs sequence_lens that are constant"):
        relay.frontend.from_onnx(model)
