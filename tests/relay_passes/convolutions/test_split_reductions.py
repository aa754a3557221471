"""Convolutions over parts of their channels: right numbers, and only where L2 asks for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.core.machine.cpu import KIB, MIB, Cpu
from tvm_neocpu.core.types import FP16_WEIGHTS, U8S8
from tvm_neocpu.frontend.reading.half_metadata import asking_for_halves
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.convolutions import split_reductions
from tvm_neocpu.relay_passes.convolutions.split_reductions import SplitReductions, part_ends
from tvm_neocpu.relay_passes.layouts.slices import Range, read_slice
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids").cpu
# DeepLabv3's head at 520x520.
HEAD = ConvWorkload(1, 2048, 65, 65, 256, (3, 3), (1, 1), (24,) * 4, (24, 24))


def with_l2(size: int) -> Cpu:
    return replace(CPU, l2=size)


def widths(conv: ConvWorkload, cpu: Cpu = CPU) -> list[int]:
    """Channels of each part."""
    return list(np.diff((0, *part_ends(conv, cpu))))


@pytest.mark.parametrize(("l2", "parts"), [(4 * MIB, 1), (2 * MIB, 8), (1 * MIB, 16)])
def test_parts_follow_l2(l2: int, parts: int) -> None:
    """A block of 32 filters has 2.25 MiB: a part of 8 takes 288 KiB of 2 MiB."""
    assert widths(HEAD, with_l2(l2)) == [2048 // parts] * parts


def test_parts_are_no_more_than_twice_what_l2_asks_for() -> None:
    """Of 41 units of 32 channels no few equal parts consist."""
    assert widths(replace(HEAD, in_channels=1312)) == [448, 448, 416]


def test_weights_in_half_precision_are_half_as_many() -> None:
    half = replace(HEAD, types=FP16_WEIGHTS)
    assert sum(widths(half)) == 2048 and len(widths(half)) < 8
    assert len(widths(replace(half, in_channels=4096))) == 8


@pytest.mark.parametrize(
    "other",
    [
        replace(HEAD, in_channels=256),
        replace(HEAD, out_channels=8),
        replace(HEAD, height=5, width=5),
        replace(HEAD, groups=2),
        replace(HEAD, types=U8S8),
        # Winograd's.
        replace(HEAD, dilation=(1, 1), padding=(1,) * 4),
        # No parts of whole blocks.
        replace(HEAD, in_channels=2050),
    ],
    ids=[
        "few channels",
        "few filters",
        "few pixels",
        "groups",
        "integers",
        "dense",
        "odd channels",
    ],
)
def test_others_stay(other: ConvWorkload) -> None:
    assert widths(other) == [other.in_channels]


def network() -> onnx.ModelProto:
    """Two taps along a row of stride 2, which no other algorithm takes."""
    net = Net((1, 128, 33, 37), biases=True)
    x = net("Conv", "data", net.weight(48, 128, 1, 2), net.weight(48), strides=[1, 2])
    return net.model(net("Relu", net("Add", x, net.constant([0.5]))))


def cut_at(ends: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the network's layer; they stay as they are."""

    def of(conv: ConvWorkload, _: Cpu) -> tuple[int, ...]:
        return ends if conv.in_channels == ends[-1] else (conv.in_channels,)

    monkeypatch.setattr(split_reductions, "part_ends", of)


@pytest.mark.parametrize("ends", [(32, 64, 96, 128), (96, 128)], ids=["equal", "unequal"])
def test_numbers(ends: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts whose sum takes the bias and what follows."""
    cut_at(ends, monkeypatch)
    check(network())


def test_before_and_expected() -> None:
    small = replace(CPU, l2=40 * KIB)
    mod = fold(relay.frontend.from_onnx(network())[0], CPU)
    (before,) = _convolutions(mod)
    ends = part_ends(before, small)
    assert len(ends) > 1
    after = SplitReductions(small)(mod)
    begins = (0, *ends[:-1])
    parts = [replace(before, in_channels=end - at) for at, end in zip(begins, ends, strict=True)]
    assert _convolutions(after) == parts
    slices = [ranges for value in _values(after) if (ranges := read_slice(value))]
    assert slices == [(Range(1, *each),) for each in zip(begins, ends, strict=True)]


def test_a_layer_is_asked_for_in_half_precision_as_a_whole(monkeypatch) -> None:
    """Names of layers are noted from the file, where the layer is whole."""
    cut_at((64, 128), monkeypatch)
    model = network()
    model.graph.node[0].name = "head"
    mod, _ = relay.frontend.from_onnx(asking_for_halves(model, {"head": "float16"}))
    assert [conv.types for conv in _convolutions(fold(mod, CPU))] == [FP16_WEIGHTS] * 2
    whole = _convolutions(fold(mod, CPU, whole_layers=True))
    assert [conv.in_channels for conv in whole] == [128]


def _values(mod: object) -> list[object]:
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]  # type: ignore[index]
    return [binding.value for binding in bindings]


def _convolutions(mod: object) -> list[ConvWorkload]:
    found = [conv_workload(value) for value in _values(mod)]
    return [conv for conv in found if conv is not None]
