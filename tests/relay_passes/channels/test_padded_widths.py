"""How many channels an output is padded to: where whole vectors pay, and where they do not."""

from __future__ import annotations

import pytest

from tvm_neocpu.relay_passes.channels.padded_widths import (
    padded_channels,
    padded_output,
    wider_tiles,
)
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


@pytest.mark.parametrize(
    ("channels", "lanes", "padded"),
    [
        (58, 16, 64),  # ShuffleNet-v2: vectors of 2
        (116, 16, 128),
        (27, 16, 32),
        (20, 16, 32),
        (24, 16, 24),  # half vectors are no worse than a quarter of zeros
        (17, 16, 32),
        (64, 16, 64),
        (12, 16, 12),  # less than a vector
        (20, 8, 20),
        (27, 8, 32),
        (58, 8, 64),
        (72, 16, 80),  # half vectors, few zeros
        (40, 16, 40),
        (1000, 16, 1008),
        (1000, 8, 1000),
    ],
)
def test_zeros_must_gain_twice_what_they_cost(channels: int, lanes: int, padded: int) -> None:
    assert padded_channels(channels, lanes) == padded


@pytest.mark.parametrize(
    ("channels", "target", "padded"),
    [
        (1000, "znver3", 1008),  # 125 vectors: tiles of one vector only
        (440, "znver3", 448),
        (104, "znver3", 104),  # a dead vector of 14 costs more than it gains
        (120, "znver3", 120),  # tiles of three vectors
        (41, "znver3", 41),
        (8, "znver3", 8),
        (400, "skylake-avx512", 400),  # 25 vectors, and registers for tiles of 28 pixels
    ],
)
def test_one_more_vector_where_tiles_have_one_only(channels: int, target: str, padded: int) -> None:
    cpu = parse_target(f"llvm -mcpu={target}").cpu
    assert wider_tiles(channels, cpu, cpu.unit("float32")) == padded


@pytest.mark.parametrize(
    ("channels", "target", "by_lanes", "padded"),
    [
        (11, "znver5", True, 16),  # NASNet-A mobile's stem: one channel after the other
        (11, "znver5", False, 11),  # a dense layer fills its register tile
        (12, "znver5", True, 16),
        (8, "znver5", True, 8),
        (22, "znver5", False, 32),
        (22, "znver4", False, 24),  # three vectors of 8 lanes at full rate
        (72, "znver5", False, 80),
        (72, "znver4", False, 72),
        (120, "znver4", False, 120),
        (88, "znver4", False, 96),  # 11 vectors of 8 lanes divide into single ones only
        (58, "znver4", False, 64),
        (116, "znver4", False, 120),
    ],
)
def test_what_an_output_is_padded_to(
    channels: int, target: str, by_lanes: bool, padded: int
) -> None:
    cpu = parse_target(f"llvm -mcpu={target}").cpu
    conv = ConvWorkload(1, 32, 9, 9, channels, (3, 3))
    assert padded_output(conv, cpu, by_lanes) == padded
