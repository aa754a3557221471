"""Convolutions over parts of their channels: right numbers, and only where L2 asks for it."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.core.machine.cpu import KIB, MIB, Cpu
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.convolutions import split_reductions
from tvm_neocpu.relay_passes.convolutions.split_reductions import SplitReductions, parts_of
from tvm_neocpu.relay_passes.layouts.slices import Range, read_slice
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids").cpu
# DeepLabv3's head at 520x520.
HEAD = ConvWorkload(1, 2048, 65, 65, 256, (3, 3), (1, 1), (24,) * 4, (24, 24))


def with_l2(size: int) -> Cpu:
    return replace(CPU, l2=size)


@pytest.mark.parametrize(("l2", "parts"), [(4 * MIB, 1), (2 * MIB, 8), (1 * MIB, 16)])
def test_parts_follow_l2(l2: int, parts: int) -> None:
    """A block of 32 filters has 2.25 MiB: a part of 8 takes 288 KiB of 2 MiB."""
    assert parts_of(HEAD, with_l2(l2)) == parts


@pytest.mark.parametrize(
    "other",
    [
        replace(HEAD, in_channels=256),
        replace(HEAD, height=5, width=5),
        replace(HEAD, groups=2),
        replace(HEAD, types=U8S8),
        # Winograd's.
        replace(HEAD, dilation=(1, 1), padding=(1,) * 4),
        # No parts of whole blocks.
        replace(HEAD, in_channels=2050),
    ],
    ids=["few channels", "few pixels", "groups", "integers", "dense", "odd channels"],
)
def test_others_stay(other: ConvWorkload) -> None:
    assert parts_of(other, CPU) == 1


def network() -> onnx.ModelProto:
    """Two taps along a row of stride 2, which no other algorithm takes."""
    net = Net((1, 128, 33, 37), biases=True)
    x = net("Conv", "data", net.weight(48, 128, 1, 2), net.weight(48), strides=[1, 2])
    return net.model(net("Relu", net("Add", x, net.constant([0.5]))))


def test_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four parts, whose sum takes the bias and what follows."""
    monkeypatch.setattr(split_reductions, "parts_of", lambda conv, _: 4)
    check(network())


def test_before_and_expected() -> None:
    small = replace(CPU, l2=40 * KIB)
    mod = fold(relay.frontend.from_onnx(network())[0], CPU)
    (before,) = _convolutions(mod)
    wanted = parts_of(before, small)
    assert wanted > 1
    after = SplitReductions(small)(mod)
    part = replace(before, in_channels=128 // wanted)
    assert _convolutions(after) == [part] * wanted
    step = part.in_channels
    slices = [ranges for value in _values(after) if (ranges := read_slice(value))]
    assert slices == [(Range(1, at, at + step),) for at in range(0, 128, step)]


def _values(mod: object) -> list[object]:
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]  # type: ignore[index]
    return [binding.value for binding in bindings]


def _convolutions(mod: object) -> list[ConvWorkload]:
    found = [conv_workload(value) for value in _values(mod)]
    return [conv for conv in found if conv is not None]
