"""Convolutions from text: the inverse of printing them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.topi.conv2d.text import EXAMPLE, parse
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.workload_text import parse_workload

COUNT = st.integers(1, 9)
PAIR = st.tuples(COUNT, COUNT)
CONVS = st.builds(
    lambda batch, width, sides, kernel, stride, padding, dilation, groups: ConvWorkload(
        batch,
        width * groups,
        sides[0] + 80,
        sides[1] + 80,
        groups * 2,
        kernel,
        stride,
        padding,
        dilation,
        groups,
    ),
    COUNT,
    COUNT,
    PAIR,
    PAIR,
    PAIR,
    st.tuples(*[st.integers(0, 3)] * 4),
    PAIR,
    COUNT,
)


@given(CONVS)
def test_what_prints_is_read_back(conv: ConvWorkload) -> None:
    assert parse(str(conv)) == conv
    assert parse_workload(str(conv)) == conv


def test_the_operators_example_is_one() -> None:
    assert parse(EXAMPLE) == ConvWorkload(1, 64, 56, 56, 64, (3, 3), (2, 2), (1, 1, 1, 1))


def test_other_operators_texts_are_not_read() -> None:
    assert parse("dense 1x512->1000") is None


@pytest.mark.parametrize(
    ("text", "conv"),
    [
        ("512x7x7->512 3x3 p1", ConvWorkload(1, 512, 7, 7, 512, (3, 3), padding=(1, 1, 1, 1))),
        (" 8x5x6->4 1x3 s(1,2) ", ConvWorkload(1, 8, 5, 6, 4, (1, 3), (1, 2))),
        ("batch2 8x5x5->16 3x3 depthwise", ConvWorkload(2, 8, 5, 5, 16, (3, 3), groups=8)),
    ],
)
def test_examples(text: str, conv: ConvWorkload) -> None:
    assert parse(text) == conv


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is no workload; write one like"),
        ("512x7x7", "is no workload; write one like"),
        ("8x7x7->8 3x3 q1", "'q1' in '8x7x7->8 3x3 q1' is none of"),
        ("8x7x7->8 3x3 s(1,2,3)", "strides and dilations"),
        ("8x7x7->8 3x3 d0", "strides and dilations"),
        ("8x7x7->8 3x3 p(1,2)", "padding of"),
        ("8x7x7->8 3x3 g3", "3 groups of .* do not divide"),
        ("8x7x7->8 3x3 g0", "0 groups of .* do not divide"),
        ("8x2x2->8 3x3", "has no output"),
        ("8x7x7->0 3x3", "has no output"),
    ],
)
def test_other_texts_are_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(WorkloadTextError, match=complaint) as caught:
        parse_workload(text)
    assert "\n" not in str(caught.value)
