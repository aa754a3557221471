"""Slice and Split against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Array, Case, check_together, image
from onnx_text import check_like_peer, normal, parsed

# Starts, ends, axes, steps of a tensor (2, 3, 4, 5).
SLICES: tuple[tuple[list[int], ...], ...] = (
    ([0], [2]),
    ([1, -3], [3, -1], [2, 3]),
    ([-1], [-100], [3], [-1]),
    ([4], [0], [3], [-2]),
    ([0, 10], [100, 0], [2, 3], [2, -3]),
    ([-1], [-(2**63)], [0], [-1]),
    ([0], [2**63 - 1], [-2], [3]),
    ([2], [2], [1], [1]),
    ([3], [1], [3], [1]),
)


def _ints(values: list[int]) -> Array:
    return np.array(values, "int64")


def test_slices() -> None:
    x = image(2, 3, 4, 5)
    check_together([Case("Slice", [x], [_ints(part) for part in parts]) for parts in SLICES])
    older = {"starts": [0, 1], "ends": [1, -1], "axes": [1, 3]}
    check_together([Case("Slice", [x], (), older)], opset=9)


def test_slices_that_a_run_computes() -> None:
    x = image(2, 3, 4, 5)
    inputs = [x, _ints([-1]), _ints([-100]), _ints([2]), _ints([-1])]
    check_together([Case("Slice", inputs)])


def test_splits() -> None:
    x = image(4, 7)
    check_together(
        [
            Case("Split", [x], (), {"axis": 1, "num_outputs": 3}, 3),
            Case("Split", [x], (), {"axis": -1, "num_outputs": 4}, 4),
            Case("Split", [x], [_ints([1, 2, 4])], {"axis": 1}, 3),
            Case("Split", [x], [_ints([0, 7])], {"axis": 1}, 2),
            Case("Split", [x], [_ints([7])], {"axis": 1}, 1),
        ]
    )
    check_together([Case("Split", [x], (), {"axis": 0}, 2)], opset=13)
    check_together([Case("Split", [x], (), {"axis": 1, "split": [4, 3]}, 2)], opset=11)


@pytest.mark.parametrize("extent", [1, 3])
@pytest.mark.parametrize("attributes", ["axis = 1, keepdims = 0", "axis = -2", "axis = 1, sized"])
def test_a_sequence_of_pieces(extent: int, attributes: str) -> None:
    """ONNX Runtime's own keepdims counts where there is no second input."""
    sized = ", n" if "sized" in attributes else ""
    model = parsed(
        f"""g (float[2,{extent},3] x) => (float[] y) {{
            s = SplitToSequence<{attributes.removesuffix(", sized")}>(x{sized})
            y = ConcatFromSequence<axis = 0>(s)
        }}""",
        **({"n": np.array([1] * extent)} if sized else {}),
    )
    check_like_peer(model, x=normal(2, extent, 3))
