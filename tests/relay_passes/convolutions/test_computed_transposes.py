"""Transposed convolutions whose weight is computed: ONNX Runtime's numbers, and templates."""

from __future__ import annotations

from typing import Any

import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").cpu


def network(weight: tuple[int, ...], **attributes: Any) -> Any:
    """A transposed convolution of the image with weights made of it."""
    net = Net((2, 8, 5, 7))
    mean = net("ReduceMean", "data", axes=[0, 1, 2, 3], keepdims=1)
    kernel = net("Add", net.weight(*weight), mean)
    return net.model(net("ConvTranspose", "data", kernel, **attributes))


CASES = {
    "twice the size": ((8, 6, 2, 2), {"strides": [2, 2]}),
    "overlapping": ((8, 6, 3, 3), {"strides": [2, 2], "pads": [1, 1, 0, 1]}),
    "output padding": (
        (8, 5, 4, 3),
        {"strides": [3, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 1]},
    ),
    "gaps": ((8, 4, 1, 2), {"strides": [2, 3]}),
    "no stride": ((8, 4, 3, 2), {"dilations": [2, 1], "pads": [1, 0, 2, 1]}),
    "groups": ((8, 3, 3, 3), {"strides": [2, 2], "group": 2}),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers(case: str) -> None:
    weight, attributes = CASES[case]
    check(network(weight, **attributes))


@pytest.mark.parametrize(("case", "left"), [(case, case == "groups") for case in CASES])
def test_templates_take_all_of_one_group(case: str, left: bool) -> None:
    weight, attributes = CASES[case]
    folded = fold(relay.frontend.from_onnx(network(weight, **attributes))[0], CPU)
    assert len(FindFallbacks(CPU)(folded).fallbacks) == left
