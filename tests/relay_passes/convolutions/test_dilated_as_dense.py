"""Dilated convolutions over reordered pixels: right numbers, and only what pays is moved."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.convolutions import dilated_as_dense
from tvm_neocpu.relay_passes.convolutions.dilated_as_dense import (
    MAY_GROW,
    chosen_of,
    dense,
    swap_of,
)
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu
# Shape, kernel, dilations, pads (top, left, bottom, right).
CASES = {
    "same size, odd": ((1, 5, 13, 11), (3, 3), (2, 2), (2, 2, 2, 2)),
    "several images": ((3, 4, 9, 8), (3, 3), (2, 3), (2, 3, 2, 3)),
    "no padding": ((1, 6, 17, 14), (3, 3), (3, 2), (0, 0, 0, 0)),
    "padding that is no multiple": ((1, 6, 11, 13), (3, 3), (3, 4), (1, 5, 2, 3)),
    "more padding behind": ((1, 6, 11, 13), (3, 2), (2, 2), (0, 1, 7, 4)),
    "a dilation beyond the image": ((1, 3, 5, 6), (3, 3), (7, 9), (7, 9, 7, 9)),
    "one axis": ((2, 3, 12, 9), (3, 5), (1, 2), (1, 4, 1, 4)),
}


def network(case: str) -> onnx.ModelProto:
    shape, kernel, dilations, pads = CASES[case]
    net = Net(shape)
    weights = net.weight(7, shape[1], *kernel), net.weight(7)
    x = net("Relu", net("Conv", "data", *weights, pads=list(pads), dilations=list(dilations)))
    return net.model(net("Conv", x, net.weight(4, 7, 1, 1)))


@pytest.mark.parametrize("case", CASES)
def test_numbers(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dilated_as_dense, "LEAST_GAIN", 0.0)
    model = network(case)
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    assert max(conv.dilation for conv in convolutions(mod)) == (1, 1)
    check(model)


def test_what_pays() -> None:
    """A late layer of a segmenting network, its head; not a layer of few channels.

    A larger dilation reads much padding, which direct tiles leave out.
    """
    late = ConvWorkload(1, 256, 28, 28, 256, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2))
    head, wide = (
        replace(late, height=33, width=33, padding=(step,) * 4, dilation=(step, step))
        for step in (6, 12)
    )
    assert swap_of(late, CPU) is not None and swap_of(head, CPU) is not None
    assert swap_of(wide, CPU) is None
    assert swap_of(replace(late, in_channels=8, out_channels=8), CPU) is None


def test_weights_grow_within_bounds() -> None:
    """By MAY_GROW or the network's own weights; what gains most for a byte goes first."""
    late = ConvWorkload(1, 256, 28, 28, 256, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2))
    wide = replace(late, in_channels=512, out_channels=512)
    swaps = {conv: swap for conv in (late, wide) if (swap := swap_of(conv, CPU))}
    first = max(swaps.values(), key=lambda swap: swap.saved / swap.added).conv
    assert swaps[late].added > 2 * late.weight_bytes
    assert set(chosen_of({late: 4}, CPU)) == {late}
    many = {conv: MAY_GROW // swap.added + 1 for conv, swap in swaps.items()}
    many[first] -= 1
    assert set(chosen_of(many, CPU)) == {first}
    large = ConvWorkload(1, 4096, 7, 7, 4096, (3, 3), (1, 1), (1, 1, 1, 1))
    assert set(chosen_of({**many, large: 1}, CPU)) == {late, wide}


def test_neighbours_share_a_gap() -> None:
    head = ConvWorkload(1, 256, 33, 33, 256, (3, 3), (1, 1), (12,) * 4, (12, 12))
    other = dense(head)
    assert other is not None
    # 12 phases of 3 pixels and a gap.
    assert (other.height, other.width, other.padding) == (48, 48, (1, 1, 1, 1))


@pytest.mark.parametrize("attributes", [{"strides": [2, 2]}, {"group": 2}, {"pads": [6] * 4}])
def test_others_stay(attributes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stride, groups, padding beyond the kernel."""
    monkeypatch.setattr(dilated_as_dense, "LEAST_GAIN", 0.0)
    net = Net((1, 4, 12, 12))
    weight = net.weight(6, 4 // int(attributes.get("group", 1)), 3, 3)  # type: ignore[call-overload]
    model = net.model(net("Conv", "data", weight, dilations=[2, 2], **attributes))
    (conv,) = convolutions(fold(relay.frontend.from_onnx(model)[0], CPU))
    assert conv.dilation == (2, 2)


def convolutions(mod: object) -> list[ConvWorkload]:
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]  # type: ignore[index]
    found = [conv_workload(binding.value) for binding in bindings]
    return [conv for conv in found if conv is not None]
