"""Pad against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Array, Case, check_node, check_together, image, node_model
from onnx_text import parsed

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend import from_onnx

WIDTHS = (
    [0, 0, 1, 2, 0, 0, 2, 1],
    [0, 1, 0, 0, 0, 1, 2, 0],
    [0, 0, -1, 1, 0, 0, 1, -2],
    [0, 0, -1, -1, 0, 0, -1, 0],
    [0] * 8,
)


def _pads(*widths: int) -> Array:
    return np.array(widths, "int64")


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_a_mode_with_pads_of_either_sign(mode: str) -> None:
    x, named = image(2, 3, 4, 5), {"mode": mode}
    whole = np.arange(12).reshape(3, 4)
    check_together(
        [
            *(Case("Pad", [x], [_pads(*widths)], named) for widths in WIDTHS),
            Case("Pad", [x], [_pads(1, 2, 2, 1), None, _pads(-1, 1)], named),
            *(
                Case("Pad", [whole.astype(dtype)], [_pads(1, 1, 2, 0)], named)
                for dtype in ("int64", "uint8", "bool")
            ),
        ],
        opset=19,
    )


@pytest.mark.parametrize(
    ("pads", "needed"), [((3, 0, 0, 0), 4), ((0, 0, 0, 4), 5), ((-1, 0, 2, 0), 3)]
)
def test_a_mirror_must_be_long_enough(pads: tuple[int, ...], needed: int) -> None:
    """In the last case a crop leaves two rows, of which only one can be mirrored."""
    model = node_model("Pad", [image(3, 4)], [_pads(*pads)], mode="reflect")
    with pytest.raises(UnsupportedOperatorError, match=f"mode reflect needs {needed} elements"):
        from_onnx(model)


@pytest.mark.parametrize(("mode", "needed"), [("reflect", 2), ("edge", 1), ("wrap", 1)])
def test_nothing_cannot_be_repeated(mode: str, needed: int) -> None:
    """The rows from the third to the third; a file's extent of 0 would be an open one."""
    text = f"""g (float[3,4] x) => (float[N,4] y)
        <int64[1] two = {{2}}, int64[1] axis = {{0}}, int64[4] pads = {{1, 0, 0, 0}}> {{
        empty = Slice(x, two, two, axis)
        y = Pad<mode = "{mode}">(empty, pads)
    }}"""
    model = parsed(text, 19)
    with pytest.raises(UnsupportedOperatorError, match=f"mode {mode} needs {needed} elements"):
        from_onnx(model)


def test_values_and_the_older_opsets() -> None:
    x, value = image(1, 1, 3, 4), np.array(2.5, "float32")
    pads = _pads(0, 0, 1, 1, 0, 0, -1, 1)
    lowest = np.array(-np.inf, "float32")
    check_together(
        [
            Case("Pad", [x], [pads, value]),
            Case("Pad", [x], [pads, value.reshape(1)]),
            Case("Pad", [x], [pads, lowest]),
        ]
    )
    check_together([Case("Pad", [x], (), {"pads": pads.tolist(), "value": 2.5})], opset=2)


def test_pads_that_leave_nothing() -> None:
    """ONNX Runtime's result has no rows."""
    x = image(1, 1, 3, 4)
    check_node(node_model("Pad", [x], [_pads(0, 0, -2, 0, 0, 0, -1, 0)]), x)
