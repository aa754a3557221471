"""Convolutions whose weight is computed: products over columns, with ONNX Runtime's numbers."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold, lower
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").cpu


def network(weight: tuple[int, ...], **attributes: Any) -> Any:
    """A convolution of the image with weights made of it."""
    net = Net((2, 8, 9, 7))
    outputs, inputs, height, width = weight
    mean = net("ReduceMean", "data", axes=[0, 1, 2, 3], keepdims=1)
    kernel = net("Add", net.weight(outputs, inputs, height, width), mean)
    return net.model(net("Conv", "data", kernel, **attributes))


CASES = {
    "one tap": ((12, 8, 1, 1), {}),
    "one tap, one filter": ((1, 8, 1, 1), {}),
    "stride of one tap": ((5, 8, 1, 1), {"strides": [2, 3]}),
    "padding": ((6, 8, 3, 3), {"pads": [1, 0, 2, 1]}),
    "everything": (
        (8, 4, 3, 2),
        {"pads": [2] * 4, "strides": [2, 1], "dilations": [1, 3], "group": 2},
    ),
    "one filter": ((1, 8, 4, 3), {}),
    "few filters": (
        (3, 8, 3, 2),
        {"pads": [2, 1, 0, 2], "strides": [2, 1], "dilations": [1, 3]},
    ),
    "strides that read few pixels": ((2, 8, 2, 2), {"strides": [4, 3]}),
    "depthwise": ((8, 1, 3, 3), {"group": 8}),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers(case: str) -> None:
    weight, attributes = CASES[case]
    check(network(weight, **attributes))


def test_numbers_of_a_sequence() -> None:
    net = Net((2, 8, 9))
    mean = net("ReduceMean", "data", axes=[0, 1, 2], keepdims=1)
    kernel = net("Add", net.weight(6, 4, 3), mean)
    check(net.model(net("Conv", "data", kernel, pads=[1, 0], group=2)))


@pytest.mark.parametrize(
    ("case", "left"),
    [
        ("everything", 0),
        ("one tap, one filter", 0),
        ("one filter", 0),
        ("few filters", 0),
        ("strides that read few pixels", 1),
        ("depthwise", 1),
    ],
)
def test_templates_take_all_but_depthwise(case: str, left: int) -> None:
    weight, attributes = CASES[case]
    folded = fold(relay.frontend.from_onnx(network(weight, **attributes))[0], CPU)
    assert len(FindFallbacks(CPU)(folded).fallbacks) == left


def test_columns_are_copied_in_one_pass() -> None:
    model = network((6, 8, 3, 3), pads=[1] * 4)
    mod = lower(relay.frontend.from_onnx(model)[0], CPU)
    copies = [name for name in map(str, mod.get_global_vars()) if "slice" in name]
    assert len(copies) == 1 and "concatenate" in copies[0]
