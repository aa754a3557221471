"""Data movement of ours against ONNX Runtime, and by NumPy where it has no kernel."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_node import Array, Case, check_node, check_together, image, node_model, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError


def _ints(*values: int) -> Array:
    return np.array(values, "int64")


def test_shapes_that_a_run_computes() -> None:
    x = image(3, 1)
    seven = numpy_helper.from_array(np.array([7], "int32"))
    check_together(
        [
            Case("Expand", [x, _ints(2, 1, 4)]),
            Case("Expand", [x, _ints(1, 1)]),
            Case("Expand", [x, _ints(4)]),
            Case("ConstantOfShape", [_ints(2, 3)]),
            Case("ConstantOfShape", [_ints(2, 0)], (), {"value": seven}),
            Case("Shape", [x]),
        ]
    )


def test_shapes_that_are_constant() -> None:
    x = image(3, 1)
    check_together(
        [
            Case("Expand", [x], [_ints(2, 1, 4)]),
            Case("Expand", [x], [_ints(1)]),
            Case("Expand", [image(2, 3, 4)], [_ints(3, 1)]),
            Case("ConstantOfShape", [], [_ints(2, 3)]),
        ]
    )


@pytest.mark.parametrize("backwards", [0, 1])
def test_cumulative_sums(backwards: int) -> None:
    whole = np.arange(12).reshape(3, 4)
    check_together(
        [
            Case(
                "CumSum",
                [whole.astype(dtype)],
                [np.array(axis, "int64")],
                {"reverse": backwards, "exclusive": exclusive},
            )
            for dtype in ("float32", "int64")
            for axis in (0, -1)
            for exclusive in (0, 1)
        ]
    )


def test_cumulative_products() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], "float32")
    model = node_model("CumProd", [x], [np.array(1, "int64")], opset=26, reverse=1, exclusive=1)
    assert ours(model, [x])[0].tolist() == [[6, 3, 1], [30, 6, 1]]


def test_a_computed_axis_is_refused() -> None:
    model = node_model("CumSum", [image(2, 3), np.array(1, "int64")])
    with pytest.raises(UnsupportedOperatorError, match="input 1 must be a constant"):
        relay.frontend.from_onnx(model)


def test_reversed_sequences_and_diagonals() -> None:
    x = image(3, 4, 2)
    types = (None, TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE)
    check_together(
        [
            Case("ReverseSequence", [x, _ints(1, 3, 4)], (), {"batch_axis": 0, "time_axis": 1}),
            Case("ReverseSequence", [x], [_ints(1, 2, 3, 3)], {"batch_axis": 1, "time_axis": 0}),
            *(
                Case(
                    "EyeLike",
                    [np.zeros((3, 4), "int32")],
                    (),
                    {"k": k} | ({} if dtype is None else {"dtype": dtype}),
                )
                for k in (0, -1, 9)
                for dtype in types
            ),
        ]
    )


def test_columns_to_images() -> None:
    check_together(
        [
            Case("Col2Im", [image(1, 5, 5)], [_ints(5, 5), _ints(1, 5)]),
            Case("Col2Im", [image(2, 18, 4)], [_ints(5, 5), _ints(3, 3)], {"strides": [2, 2]}),
            Case("Col2Im", [image(1, 5, 15)], [_ints(5, 5), _ints(1, 5)], {"pads": [0, 1, 0, 1]}),
            Case("Col2Im", [image(1, 4, 5)], [_ints(6, 6), _ints(2, 2)], {"dilations": [1, 5]}),
        ]
    )


def test_space_to_depth() -> None:
    x = image(2, 3, 4, 6)
    check_together([Case("SpaceToDepth", [x], (), {"blocksize": 2})])
    model = node_model("SpaceToDepth", [x], opset=28, blocksize=2, mode="CRD")
    (expected,) = ReferenceEvaluator(model).run(None, {"x0": x})
    np.testing.assert_array_equal(ours(model, [x])[0], expected)


@pytest.mark.parametrize(
    ("repeats", "words"),
    [((1, -2), r"repeats \[1, -2\] has a number below 0"), ((2,), "1 repeats for data of rank 2")],
)
def test_repeats_that_no_tile_has(repeats: tuple[int, ...], words: str) -> None:
    """A negative one was an internal error of code generation."""
    model = node_model("Tile", [image(1, 3)], [_ints(*repeats)])
    with pytest.raises(UnsupportedOperatorError, match=words):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("time_axis", [0, 1])
def test_reversed_sequences_of_one_step(time_axis: int) -> None:
    """An axis of one element stopped the build: its place was an int32 beside int64 lengths."""
    shape = (1, 1, 4, 2) if time_axis == 0 else (3, 1, 4, 2)
    attributes = {"time_axis": time_axis, "batch_axis": 1 - time_axis}
    lengths = _ints(*[1] * shape[1 - time_axis])
    model = node_model("ReverseSequence", [image(*shape)], [lengths], **attributes)
    check_node(model, image(*shape))
