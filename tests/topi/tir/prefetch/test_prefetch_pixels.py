"""What a 1x1 convolution reads is asked for a tile ahead: every line of it, and no other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from prefetches import LINE, asked_for, lines_of

from tvm_neocpu.core.machine.cpu import AVX512, KIB, Cpu
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks

CPU = Cpu("skylake-avx512", AVX512, cores=2)
SMALL_L2 = replace(CPU, l2=64 * KIB)
WIDE = ConvWorkload(1, 64, 28, 28, 64, (1, 1))
STRIDED = ConvWorkload(1, 64, 28, 28, 64, (1, 1), (2, 2))


def requested(conv: ConvWorkload, config: Config, cpu: Cpu = CPU) -> set[int]:
    """Lines of the data, counted from its beginning, that any request asks for."""
    asked = asked_for(schedule_blocks(unscheduled(conv, config), cpu), "data")
    return {line for request in asked for line in lines_of(*request)}


def read(conv: ConvWorkload, config: ConvConfig, rows: int, columns: int) -> set[int]:
    """Lines of the pixels that so many outputs, from the first corner, are computed from."""
    _, blocks, height, width, lanes = layouts_of(config)[0].shape_of(conv.in_shape)
    down, across = conv.stride
    pixels = [
        (block * height + y * down) * width + x * across
        for block, y, x in product(range(blocks), range(rows), range(columns))
    ]
    return {pixel * lanes // LINE + line for pixel in pixels for line in range(lanes // LINE)}


@pytest.mark.parametrize(
    ("conv", "config"),
    [
        pytest.param(WIDE, ConvConfig(32, 32, 14), id="two tiles a row"),
        pytest.param(WIDE, ConvConfig(32, 32, 28), id="a row, two lines a step"),
        pytest.param(WIDE, ConvConfig(64, 16, 7, reg_m=2, oh_bn=2), id="two rows"),
        pytest.param(WIDE, ConvConfig(16, 64, 7, parallel_oc=True), id="chunks of channels"),
        pytest.param(STRIDED, ConvConfig(32, 32, 7), id="strided"),
        pytest.param(STRIDED, ConvConfig(16, 32, 14), id="strided, a row"),
        pytest.param(STRIDED, ConvConfig(32, 32, 7, reg_m=2), id="strided, two rows"),
    ],
)
def test_every_line_is_asked_for_but_those_of_the_first_tile(
    conv: ConvWorkload, config: ConvConfig
) -> None:
    lines = requested(conv, config)
    wanted = read(conv, config, conv.out_height, conv.out_width)
    assert wanted - lines <= read(conv, config, config.reg_m, config.reg_n)
    rows_below = config.reg_m * conv.stride[0] * conv.width * config.ic_bn // LINE
    beyond = {line + rows_below for line in wanted}
    assert lines <= wanted | beyond


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(Im2colConfig(32, 32, 8, 98), id="whole tiles"),
        pytest.param(Im2colConfig(32, 32, 6, 131), id="a narrower last tile"),
        pytest.param(Im2colConfig(64, 16, 7, 28, parallel_oc=True), id="chunks"),
    ],
)
def test_runs_of_pixels_ask_across_rows(config: Im2colConfig) -> None:
    """A tile of im2col takes its pixels in order, whatever rows of the image they are of."""
    lines = requested(WIDE, config, SMALL_L2)
    blocks, pixels = WIDE.in_channels // config.ic_bn, WIDE.height * WIDE.width
    row = config.ic_bn // LINE
    wanted = set(range(blocks * pixels * row))
    first = {
        (block * pixels + at) * row + line
        for block, at, line in product(range(blocks), range(config.reg_n), range(row))
    }
    assert wanted - lines <= first
    assert max(lines) < max(wanted) + 1 + 2 * config.reg_n * row
    assert requested(WIDE, config) == set()


@pytest.mark.parametrize(
    ("conv", "config"),
    [
        pytest.param(ConvWorkload(1, 64, 14, 14, 64, (1, 1)), ConvConfig(32, 32, 14), id="small"),
        pytest.param(ConvWorkload(1, 72, 28, 28, 64, (1, 1)), ConvConfig(24, 32, 14), id="lanes"),
        pytest.param(
            ConvWorkload(1, 64, 28, 28, 64, (3, 3), padding=(1, 1, 1, 1)),
            ConvConfig(32, 32, 14),
            id="read nine times",
        ),
        pytest.param(ConvWorkload(1, 4, 112, 112, 64, (1, 1)), ConvConfig(4, 64, 7), id="few"),
        pytest.param(ConvWorkload(1, 4, 112, 112, 64, (1, 1)), ConvConfig(0, 64, 7), id="plain"),
        pytest.param(
            ConvWorkload(1, 64, 28, 28, 64, (1, 1), padding=(1, 1, 1, 1)),
            ConvConfig(32, 32, 10),
            id="padded here",
        ),
    ],
)
def test_no_requests(conv: ConvWorkload, config: ConvConfig) -> None:
    assert asked_for(schedule_blocks(unscheduled(conv, config), CPU), "data") == []
