"""Inputs that ONNX Runtime refuses when it runs: no foreign memory is read or written, no trap.

Images are of ones: another number in a result is foreign memory.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_node import Array, Case, check_together, node_model, ours
from onnx_text import ours as ours_of
from onnx_text import parsed, peers

from tvm_neocpu import relay
from tvm_neocpu.core.errors import RunError, UnsupportedOperatorError

ONES = np.ones((2, 3, 10, 10), "float32")
ROW = np.ones((4, 3), "float32")
SQUARE = np.ones((1, 1, 2, 2), "float32")
OUTSIDE = [2, 9, -1, 400_000_000_000, -400_000_000_000, 2**62, -(2**62)]
BINS = {"output_height": 2, "output_width": 2}
TO_FOUR = {"kernel_shape": [2, 2], "strides": [2, 2]}


def _run(op_type: str, inputs: list[Array], opset: int = 17, **attributes: object) -> Array:
    (result,) = ours(node_model(op_type, inputs, opset=opset, **attributes), inputs)
    return result


@pytest.mark.parametrize("image", OUTSIDE)
def test_regions_of_images_that_are_not_there(image: int) -> None:
    """The nearest image is read."""
    regions = np.array([[0, 0, 5, 5]], "float32")
    aligned = _run("RoiAlign", [ONES, regions, np.array([image])], **BINS)
    np.testing.assert_array_equal(aligned, 1)
    named = np.array([[image, 0, 0, 5, 5]], "float32")
    np.testing.assert_array_equal(_run("MaxRoiPool", [ONES, named], pooled_shape=[2, 2]), 1)


def test_a_region_of_no_image_at_all() -> None:
    named = np.array([[np.nan, 0, 0, 5, 5], [np.inf, 0, 0, 5, 5]], "float32")
    np.testing.assert_array_equal(_run("MaxRoiPool", [ONES, named], pooled_shape=[2, 2]), 1)


@pytest.mark.parametrize("length", [40, *OUTSIDE])
def test_sequences_longer_than_the_data(length: int) -> None:
    """A length above the steps is the steps, one below 0 is 0."""
    data = np.arange(12, dtype="float32").reshape(4, 3)
    axes = {"batch_axis": 1, "time_axis": 0}
    turned = _run("ReverseSequence", [data, np.array([1, 2, length])], **axes)
    expected = data.copy()
    expected[:2, 1] = data[1::-1, 1]
    steps = min(max(length, 0), 4)
    expected[:steps, 2] = data[:steps, 2][::-1]
    np.testing.assert_array_equal(turned, expected)


@pytest.mark.parametrize("place", [16, *OUTSIDE])
def test_unpooling_to_places_that_are_not_there(place: int) -> None:
    places = np.array([0, 5, 3, place]).reshape(1, 1, 2, 2)
    spread = _run("MaxUnpool", [SQUARE, places], **TO_FOUR)
    expected = np.zeros(16, "float32")
    expected[[0, 5, 3, min(max(place, 0), 15)]] = 1
    np.testing.assert_array_equal(spread.reshape(-1), expected)


@pytest.mark.parametrize(
    ("op_type", "inputs", "weights", "attributes"),
    [
        ("RoiAlign", [ONES, np.zeros((1, 4), "float32")], [np.array([2])], BINS),
        ("ReverseSequence", [ROW], [np.array([1, 2, 5])], {"batch_axis": 1, "time_axis": 0}),
        ("MaxUnpool", [SQUARE], [np.array([0, 5, 3, 16]).reshape(1, 1, 2, 2)], TO_FOUR),
    ],
)
def test_known_ones_are_refused(
    op_type: str, inputs: list[Array], weights: list[Array], attributes: dict[str, object]
) -> None:
    model = node_model(op_type, inputs, weights, opset=17, **attributes)
    with pytest.raises(UnsupportedOperatorError, match="is not between 0 and"):
        relay.frontend.from_onnx(model)


KEPT = """
    k = Compress<axis = 0>(x, p)
"""
TAILS = {
    "RoiAlign": "y = RoiAlign<output_height = 2, output_width = 2>(k, r, i)",
    "MaxRoiPool": "y = MaxRoiPool<pooled_shape = [2, 2]>(k, f)",
    "ReverseSequence": """m = ReduceMax<axes = [2, 3], keepdims = 0>(k)
        y = ReverseSequence<batch_axis = 1, time_axis = 0>(m, l)""",
}


@pytest.mark.parametrize("tail", TAILS)
def test_images_that_a_run_counts(tail: str) -> None:
    """Fewer images are kept than places name: the last one is read."""
    inputs = "float[6,3,10,10] x, bool[6] p, int64[2] i, int64[3] l"
    text = f"g ({inputs}) => (y) {{ {KEPT} {TAILS[tail]} }}"
    weights = {
        "r": np.array([[0, 0, 5, 5], [1, 1, 8, 8]], "float32"),
        "f": np.array([[1, 0, 0, 5, 5], [9, 1, 1, 8, 8]], "float32"),
    }
    model = parsed(text, **weights)
    data = {
        "x": np.random.default_rng(0).standard_normal((6, 3, 10, 10), dtype="float32"),
        "p": np.array([1, 0, 1, 1, 0, 0], bool),
        "i": np.array([1, 9]),
        "l": np.array([1, 2, 9]),
    }
    found = ours_of(model, data)[0]
    data["i"], data["l"] = np.array([1, 2]), np.array([1, 2, 3])
    model.graph.initializer[1].CopyFrom(
        onnx.numpy_helper.from_array(np.array([[1, 0, 0, 5, 5], [2, 1, 1, 8, 8]], "float32"), "f")
    )
    np.testing.assert_allclose(found, peers(model, data)[0], rtol=1e-5)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin", "Hardmax"])
@pytest.mark.parametrize("axis", [4, -5])
def test_an_axis_that_is_not_there(op_type: str, axis: int) -> None:
    model = node_model(op_type, [ONES], opset=13, axis=axis)
    with pytest.raises(UnsupportedOperatorError, match=r"axis -?\d is outside data of rank 4"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_division_by_0_and_of_the_least_number_by_minus_1(dtype: str) -> None:
    """x / 0 is 0, x mod 0 is 0; the least number by -1 is itself, as its negative wraps."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    minus = -1 if least else 3
    x = np.array([5, least, 7, least, most, 0, least + 1] * 3, dtype)
    y = np.array([0, 0, 2, minus, minus, 0, minus] * 3, dtype)
    first = [0, 0, 3, least if least else 0, -most if least else 85, 0, most if least else 0]
    assert _run("Div", [x, y], opset=14).tolist() == first * 3
    rests = [0, 0, 1, 0, 0, 0, 0 if least else 1]
    for fmod in (0, 1):
        assert _run("Mod", [x, y], opset=13, fmod=fmod).tolist() == rests * 3


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_division_by_computed_numbers(dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 200, 40).astype(dtype) - np.array(100 * (dtype != "uint8"), dtype)
    y = rng.integers(1, 9, 40).astype(dtype)
    signed = [] if dtype == "uint8" else [Case("Mod", [x, -y]), Case("Div", [x, -y])]
    check_together([Case("Div", [x, y]), Case("Mod", [x, y]), *signed], opset=14)
    check_together([Case("Mod", [x, y], (), {"fmod": 1})], opset=14)


def test_comparisons_with_the_least_int32() -> None:
    """TVM's simplifier subtracts: x == -2^31 was false for every x."""
    least = np.array(-(2**31), "int32")
    values = np.array([-(2**31), -1, 0, 2**31 - 1], "int32")
    operators = ("Equal", "GreaterOrEqual", "LessOrEqual", "Greater", "Less")
    check_together([Case(kind, [values], [least]) for kind in operators], opset=16)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_nan_is_an_extremum_only_in_the_first_place(op_type: str) -> None:
    nan = np.nan
    rows = [[1, nan, 3], [nan, 2, 1], [3, nan, 1], [1, 2, nan], [nan] * 3, [-np.inf, nan, np.inf]]
    data = np.array(rows, "float32")
    long = np.concatenate([data, np.tile(data, 40)], axis=1)
    # A NaN beside what every number is better than.
    worst = np.array([[-np.inf, nan], [np.inf, nan]], "float32")
    wide = np.concatenate([np.repeat(worst[:, :1], 69, axis=1), worst[:, 1:]], axis=1)
    check_together(
        [
            Case(
                op_type,
                [values],
                (),
                {"axis": axis, "keepdims": keeps, "select_last_index": 1 - keeps},
            )
            for values, axis in (
                *((data, 1), (data.T.copy(), 0), (long, -1), (worst, 1), (wide, 1)),
                *((data[None], -1), (data.T[None].copy(), 1)),  # one image
            )
            for keeps in (0, 1)
        ]
    )


@pytest.mark.parametrize(("dtype", "least"), [("uint8", 0), ("int8", -128)])
@pytest.mark.parametrize("count", [3, 1000])
def test_nan_becomes_the_least_code(dtype: str, least: int, count: int) -> None:
    """As in ONNX Runtime on x86, in vectors and one by one."""
    data = np.full(count, np.nan, "float32")
    data[1:3] = np.inf, -np.inf
    scale, zero = np.array(0.5, "float32"), np.array(3, dtype)
    model = node_model("QuantizeLinear", [data], [scale, zero], opset=13)
    (codes,) = ours(model, [data])
    assert codes[1] == np.iinfo(dtype).max
    assert set(np.delete(codes, 1).tolist()) == {least}


# What a run is given, where ONNX Runtime refuses: the graph, its numbers, what is told.
NUMBERS = {
    "TopK above the extent": ("y, z = TopK (x, n)", [4], "TopK.* needs top_k <= 3"),
    "TopK below 0": ("y, z = TopK (x, n)", [-1], "TopK.* needs top_k <= 3"),
    "Split below 0": ("y, z = Split <axis = 1> (x, n)", [5, -2], "Split.* needs number_1 >= 0"),
    "Slice by nothing": ("y = Slice (x, zero, three, one, n)", [0], "Slice.* needs number_0 != 0"),
    "Tile below 0": ("y = Tile (x, n)", [1, -1], "Tile.* needs number_1 >= 0"),
    "ConstantOfShape below 0": (
        "y = ConstantOfShape (n)",
        [2, -1],
        "ConstantOfShape.* needs number_1 >= 0",
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_a_run_that_no_tensor_has(case: str) -> None:
    """TopK and Split read foreign memory, a Slice by nothing ended the process."""
    node, values, told = NUMBERS[case]
    text = f"g (float[4,3] x, int64[{len(values)}] n) => (float[a,b] y) {{ {node} }}"
    constants = {name: np.array([value]) for name, value in (("zero", 0), ("one", 1), ("three", 3))}
    used = {name: value for name, value in constants.items() if name in node}
    inputs = {"x": ROW, "n": np.array(values)}
    with pytest.raises(RunError, match=told):
        ours_of(parsed(text, **used), inputs)
