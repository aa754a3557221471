"""Types of convolutions and pools: those that TVM infers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax
from tvm.ir import assert_structural_equal

from tvm_neocpu.relay_passes.ir.window_types import with_window_type

pytestmark = pytest.mark.compiler

EXTENTS = st.integers(7, 20)
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))
PADDING = st.tuples(*[st.integers(0, 2)] * 4)
BLOCKS = st.sampled_from([0, 1, 4])


def tensor(shape: tuple[Any, ...], block: int = 0, dtype: str = "float32") -> relax.Var:
    if block:
        shape = (shape[0], shape[1] // block, *shape[2:], block)
    return relax.Var("x", relax.TensorType(shape, dtype))


def text(block: int) -> str:
    return f"NCHW{block}c" if block else "NCHW"


def inferred(call: relax.Call) -> Any:
    return relax.BlockBuilder().normalize(call).ty


@given(EXTENTS, EXTENTS, PAIRS, PAIRS, PADDING, PAIRS, BLOCKS, BLOCKS, st.sampled_from([1, 2, 8]))
def test_convolutions(
    height: int,
    width: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    before: int,
    after: int,
    groups: int,
) -> None:
    weight = relax.const(np.zeros((16, 8 // groups, *kernel), "float32"))

    def call() -> relax.Call:
        return relax.op.nn.conv2d(
            tensor((2, 8, height, width), before),
            weight,
            strides=list(strides),
            padding=list(padding),
            dilation=list(dilation),
            groups=groups,
            data_layout=text(before),
            out_layout=text(after),
        )

    assert_structural_equal(with_window_type(call()).ty, inferred(call()))


@pytest.mark.parametrize("op", [relax.op.nn.max_pool2d, relax.op.nn.avg_pool2d])
@given(EXTENTS, EXTENTS, PAIRS, PAIRS, PADDING, PAIRS, BLOCKS, st.booleans())
def test_pools(
    op: Any,
    height: int,
    width: int,
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    block: int,
    ceil_mode: bool,
) -> None:
    def call() -> relax.Call:
        return op(
            tensor((2, 8, height, width), block),
            pool_size=list(window),
            strides=list(strides),
            padding=list(padding),
            dilation=list(dilation),
            ceil_mode=ceil_mode,
            layout=text(block),
            out_layout=text(block),
        )

    assert_structural_equal(with_window_type(call()).ty, inferred(call()))


def test_of_integers() -> None:
    weight = relax.const(np.zeros((4, 8, 1, 1), "int8"))
    call = relax.op.nn.conv2d(tensor((1, 8, 5, 5), dtype="int8"), weight, out_dtype="int32")
    found = with_window_type(call).ty
    assert_structural_equal(found, relax.TensorType((1, 4, 5, 5), "int32"))


def test_what_is_left_to_tvm() -> None:
    symbolic, weight = tvm.tirx.Var("n", "int64"), relax.const(np.zeros((4, 8, 1, 1), "float32"))
    calls = [
        relax.op.nn.conv2d(tensor((symbolic, 8, 5, 5)), weight),  # an extent is open
        relax.op.nn.conv2d(tensor((1, 6, 5, 5)), weight),  # another number of channels
        relax.op.nn.conv2d(tensor((1, 8, 5, 5), dtype="float16"), weight),  # two element types
        relax.op.nn.conv2d(tensor((1, 5, 5, 8)), weight, data_layout="NHWC"),
        relax.op.nn.max_pool2d(tensor((1, 5, 5, 8)), layout="NHWC"),
        relax.op.nn.relu(tensor((1, 8, 5, 5))),
    ]
    assert all(with_window_type(call).ty.is_missing() for call in calls)
    of_known_type = relax.BlockBuilder().normalize(relax.op.nn.relu(tensor((1, 8, 5, 5))))
    assert with_window_type(of_known_type).ty.same_as(of_known_type.ty)
