"""DeformConv against ONNX Runtime; ONNX's own cases are in tests/onnx_suite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from deformable import (
    DEFORMS,
    SAME,
    Array,
    assert_close,
    by_onnx_reference,
    by_onnx_runtime,
    deform_model,
    deformables,
    names_of,
    operands_of,
)
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_node import ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

DEFORM = DEFORMS["deformable, offset groups"]
SMALL = DeformConvWorkload(1, 4, 5, 4, 2, (2, 2), padding=SAME, offset_groups=2, masked=True)


def check(
    deform: DeformConvWorkload,
    constants: tuple[str, ...] = ("weight", "bias"),
    bias: bool = True,
    reach: float = 2.0,
    **model: Any,
) -> None:
    """Import, build and run one DeformConv whose tensors of these names are constants."""
    tensors = tensors_of(deform, bias, reach)
    weights = {name: array for name, array in tensors.items() if name in constants}
    feeds = {name: array for name, array in tensors.items() if name not in constants}
    written = deform_model(deform, feeds, weights, **model)
    (found,) = ours(written, list(feeds.values()))
    assert_close(found, by_onnx_runtime(written, feeds))


def tensors_of(deform: DeformConvWorkload, bias: bool, reach: float = 2.0) -> dict[str, Array]:
    tensors = dict(zip(names_of(deform), operands_of(deform, reach), strict=True))
    values = np.random.default_rng(1).normal(size=deform.out_channels)
    return {**tensors, **({"bias": values.astype(deform.types.data)} if bias else {})}


@pytest.mark.parametrize("opset", [19, 22])
@pytest.mark.parametrize("name", DEFORMS)
def test_every_kind(name: str, opset: int) -> None:
    check(DEFORMS[name], opset=opset)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_bias_and_mask_are_optional(masked: bool, bias: bool) -> None:
    check(replace(DEFORM, masked=masked), bias=bias)


@pytest.mark.parametrize(
    "constants", [(), ("weight",), ("offset", "mask"), ("weight", "offset"), ("weight", "mask")]
)
def test_every_tensor_may_be_an_input_or_a_constant(constants: tuple[str, ...]) -> None:
    check(DEFORM, constants)


def test_attributes_have_defaults() -> None:
    absent = dict.fromkeys(
        ["strides", "pads", "dilations", "kernel_shape", "group", "offset_group"]
    )
    check(DeformConvWorkload(1, 8, 6, 5, 16, (3, 2)), **absent)


def test_offsets_far_outside_the_image() -> None:
    check(DEFORM, reach=1e3)


@pytest.mark.parametrize("constants", [(), ("weight",)])
def test_double_precision(constants: tuple[str, ...]) -> None:
    check(replace(DEFORM, types=uniform("float64")), constants)


@pytest.mark.parametrize("bias", [False, True])
def test_half_precision(bias: bool) -> None:
    """ONNX Runtime has no such kernel; ONNX's reference sums in half precision itself."""
    tensors = tensors_of(replace(SMALL, types=uniform("float16")), bias)
    written = deform_model(SMALL, tensors, {})
    (found,) = ours(written, list(tensors.values()))
    assert_close(found, by_onnx_reference(written, tensors), 4e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_onnx_reference_agrees(bias: bool) -> None:
    tensors = tensors_of(SMALL, bias)
    weights = {"weight": tensors.pop("weight")}
    written = deform_model(SMALL, tensors, weights)
    (found,) = ours(written, list(tensors.values()))
    assert_close(found, by_onnx_reference(written, tensors))


@given(
    deform=deformables(),
    bias=st.booleans(),
    reach=st.sampled_from([0.0, 2.0, 100.0]),
    constants=st.sampled_from([("weight", "bias"), ("bias",)]),
)
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_any_attributes(
    deform: DeformConvWorkload, bias: bool, reach: float, constants: tuple[str, ...]
) -> None:
    check(deform, constants, bias, reach)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "kernel_shape": ({"kernel_shape": [2, 3]}, "kernel_shape .* is not the weight's"),
    "pads": ({"pads": [-1, 0, 0, 0]}, "pads not negative"),
    "too few pads": ({"pads": [1, 1]}, "pads has 2 values in place of 4"),
    "strides": ({"strides": [0, 1]}, "must be positive"),
    "group": ({"group": 5}, "5 groups do not divide 24 input channels"),
    "offset_group": ({"offset_group": 5}, "5 groups do not divide 24 input channels"),
    "other strides": ({"strides": [1, 1]}, "its offset is"),
    "auto_pad": ({"auto_pad": "VALID"}, "has no attribute auto_pad"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_right_is_refused_in_one_line(kind: str) -> None:
    attributes, reason = REFUSED[kind]
    _refuses(deform_model(DEFORM, tensors_of(DEFORM, bias=True), {}, **attributes), reason)


def test_other_ranks_and_opsets_are_refused() -> None:
    signal = {"data": np.zeros((1, 4, 5), "float32"), "weight": np.zeros((2, 4, 3), "float32")}
    signal["offset"] = np.zeros((1, 3, 3), "float32")
    window = {"strides": [1], "pads": [0, 0], "dilations": [1], "kernel_shape": [3]}
    _refuses(deform_model(SMALL, signal, {}, **window), "1 spatial axes; 2 are supported")
    _refuses(deform_model(SMALL, tensors_of(SMALL, False), {}, opset=18), "no such operator")


def _refuses(model: onnx.ModelProto, reason: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason) as caught:
        relay.frontend.from_onnx(model)
    assert "\n" not in str(caught.value)
