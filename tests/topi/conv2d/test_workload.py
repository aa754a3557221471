"""Convolutions: derived shapes, work, and how AutoTVM and people see them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.network.workload import Role
from tvm_neocpu.core.types import Types, uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))
POINTWISE = ConvWorkload(1, 64, 56, 56, 256, (1, 1))
DEPTHWISE = ConvWorkload(2, 32, 9, 7, 32, (3, 3), (2, 2), (0, 0, 1, 1), groups=32)
MULTIPLIER = ConvWorkload(1, 6, 9, 9, 18, (3, 3), groups=6)
GROUPED = ConvWorkload(1, 24, 8, 8, 36, (3, 3), padding=(1, 1, 1, 1), groups=3)
DILATED = ConvWorkload(1, 8, 11, 13, 4, (3, 3), (1, 1), (2, 3, 2, 3), (2, 3))


@pytest.mark.parametrize(
    ("conv", "shape"),
    [
        (STEM, (1, 64, 112, 112)),
        (POINTWISE, (1, 256, 56, 56)),
        (DEPTHWISE, (2, 32, 4, 3)),
        (DILATED, (1, 4, 11, 13)),
    ],
)
def test_out_shape(conv: ConvWorkload, shape: tuple[int, ...]) -> None:
    assert conv.out_shape == shape


@given(
    side=st.integers(1, 12),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 3),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
)
def test_outputs_are_the_places_where_the_kernel_fits(
    side: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> None:
    reach = dilation * (kernel - 1) + 1
    places = [start for start in range(0, before + side + after, stride)]
    fitting = [start for start in places if start + reach <= before + side + after]
    tall = ConvWorkload(
        1, 1, side, 99, 1, (kernel, 1), (stride, 1), (before, 0, after, 0), (dilation, 1)
    )
    wide = ConvWorkload(
        1, 1, 99, side, 1, (1, kernel), (1, stride), (0, before, 0, after), (1, dilation)
    )
    if fitting:
        assert (tall.out_height, wide.out_width) == (len(fitting), len(fitting))
    else:
        assert tall.out_height <= 0 and wide.out_width <= 0


def test_flops_count_every_multiply_add_twice() -> None:
    assert POINTWISE.flops == 2 * 56 * 56 * 64 * 256
    assert DEPTHWISE.flops == 2 * 2 * 32 * 4 * 3 * 9
    assert GROUPED.flops == 2 * 64 * 36 * 9 * 8


def test_operands_are_a_feature_map_and_a_weight_of_their_types() -> None:
    types = Types("uint8", "int8", "int32", "float32")
    data, weight = replace(GROUPED, types=types).operands
    assert (data.shape, data.dtype, data.role) == ((1, 24, 8, 8), "uint8", Role.FEATURE_MAP)
    assert (weight.shape, weight.dtype, weight.role) == ((36, 8, 3, 3), "int8", Role.WEIGHT)


def test_weight_shape_has_the_channels_of_one_group() -> None:
    assert STEM.weight_shape == (64, 3, 7, 7)
    assert GROUPED.weight_shape == (36, 8, 3, 3)


def test_a_filter_over_one_channel_each_is_depthwise() -> None:
    assert all(conv.is_depthwise for conv in (DEPTHWISE, MULTIPLIER))
    one_channel = ConvWorkload(1, 1, 5, 5, 8, (3, 3))
    assert not any(conv.is_depthwise for conv in (STEM, GROUPED, one_channel))
    assert (DEPTHWISE.multiplier, MULTIPLIER.multiplier) == (1, 3)


def test_images_are_read_plain() -> None:
    assert STEM.reads_plain
    assert not POINTWISE.reads_plain
    grouped = ConvWorkload(1, 4, 5, 5, 8, (3, 3), groups=2)
    assert not grouped.reads_plain


def test_a_matrix_product_over_pixels_is_pointwise() -> None:
    assert POINTWISE.is_pointwise
    strided = ConvWorkload(1, 64, 56, 56, 256, (1, 1), (2, 2))
    padded = ConvWorkload(1, 64, 56, 56, 256, (1, 1), padding=(0, 0, 0, 1))
    assert not any(conv.is_pointwise for conv in (STEM, strided, padded))


@pytest.mark.parametrize(
    ("conv", "text"),
    [
        (STEM, "3x224x224->64 7x7 s2 p3"),
        (POINTWISE, "64x56x56->256 1x1"),
        (DEPTHWISE, "batch2 32x9x7->32 3x3 s2 p(0, 0, 1, 1) depthwise"),
        (GROUPED, "24x8x8->36 3x3 p1 g3"),
        (replace(POINTWISE, types=uniform("float64")), "64x56x56->256 1x1 float64"),
    ],
)
def test_one_line_for_people(conv: ConvWorkload, text: str) -> None:
    assert str(conv) == text


def test_workloads_that_differ_read_differently() -> None:
    square = ConvWorkload(1, 8, 9, 9, 8, (3, 3), dilation=(2, 2))
    oblong = ConvWorkload(1, 8, 9, 9, 8, (3, 3), dilation=(2, 1))
    assert str(square) != str(oblong)


@pytest.mark.parametrize(
    ("conv", "args"),
    [
        (
            STEM,
            [
                ["TENSOR", [1, 3, 224, 224], "float32"],
                ["TENSOR", [64, 3, 7, 7], "float32"],
                [2, 2],
                [3, 3, 3, 3],
                [1, 1],
                "NCHW",
                "NCHW",
                "float32",
            ],
        ),
        (
            MULTIPLIER,
            [
                ["TENSOR", [1, 6, 9, 9], "float32"],
                ["TENSOR", [6, 3, 3, 3], "float32"],
                [1, 1],
                [0, 0, 0, 0],
                [1, 1],
                "NCHW",
                "NCHW",
                "float32",
            ],
        ),
    ],
)
def test_args_are_autotvms(conv: ConvWorkload, args: list[object]) -> None:
    assert conv.args() == args


def test_a_grouped_convolutions_args_end_in_its_groups() -> None:
    assert GROUPED.args()[-1] == 3


def test_a_line_says_the_groups_that_its_weight_cannot_tell() -> None:
    assert GROUPED.extras() == {"groups": 3}
    assert DEPTHWISE.extras() == {"groups": 32}
    assert STEM.extras() == {}


def test_args_say_the_types_of_data_weight_and_output() -> None:
    types = Types("uint8", "int8", "int32", "float32")
    args = replace(POINTWISE, types=types).args()
    assert (args[0][2], args[1][2], args[7]) == ("uint8", "int8", "float32")


def test_depthwise_weights_hold_the_same_elements_in_autotvms_shape() -> None:
    for conv in (DEPTHWISE, MULTIPLIER):
        assert prod(conv.autotvm_weight_shape) == prod(conv.weight_shape)
