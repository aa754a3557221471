"""What an epilogue adds is asked for while its tile is multiplied: every line, once it can be."""

from __future__ import annotations

from math import prod

import pytest
from prefetches import LINE, asked_for, lines_of
from tvm import te, tirx, topi

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.table import implementation_of

CPU = Cpu("skylake-avx512", AVX512, cores=2)
POINT = ConvWorkload(1, 64, 14, 14, 256, (1, 1))
SQUARE = ConvWorkload(1, 32, 24, 24, 64, (3, 3), padding=(1, 1, 1, 1))


def scheduled(conv: ConvWorkload, config: Config, residual: bool = True) -> tirx.PrimFunc:
    """relu(conv + bias + residual), or without the residual."""
    template = implementation_of(config)
    shape = (conv.batch, conv.in_channels // config.ic_bn, conv.height, conv.width, config.ic_bn)
    x = te.placeholder(shape, name="x")
    w = te.placeholder(template.packed_shape(conv, config), name="w")
    y = template.compute(x, w, conv, config)
    bias = te.placeholder((1, y.shape[1], 1, 1, y.shape[4]), name="bias")
    other = te.placeholder(y.shape, name="other")
    total = topi.add(y, bias)
    total = topi.nn.relu(topi.add(total, other) if residual else total)
    inputs = [x, w, bias, *[other] * residual]
    return schedule_blocks(te.create_prim_func([*inputs, total]), CPU)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(ConvConfig(32, 32, 14), id="a row"),
        pytest.param(ConvConfig(64, 32, 7, reg_m=2), id="two rows"),
        pytest.param(ConvConfig(16, 64, 7, oh_bn=2), id="half a row"),
        pytest.param(ConvConfig(32, 32, 14, parallel_oc=True), id="chunks of channels"),
    ],
)
def test_every_line_is_asked_for_and_no_other(config: ConvConfig) -> None:
    func = scheduled(POINT, config)
    for name in (func.params[-1].name.removesuffix("_handle"), "other"):
        lines = [lines_of(*request) for request in asked_for(func, name)]
        assert set.union(*lines) == set(range(prod(POINT.out_shape) // LINE)), name


@pytest.mark.parametrize(
    ("conv", "config"),
    [
        pytest.param(POINT, Im2colConfig(32, 32, 6, 33), id="tiles across rows"),
        pytest.param(
            ConvWorkload(1, 64, 7, 7, 1024, (1, 1)), Im2colConfig(32, 32, 6, 9), id="7x7 pixels"
        ),
    ],
)
def test_every_line_of_a_run_of_pixels_is_asked_for(
    conv: ConvWorkload, config: Im2colConfig
) -> None:
    """The last tile may ask for more."""
    func = scheduled(conv, config)
    for name in (func.params[-1].name.removesuffix("_handle"), "other"):
        lines = [lines_of(*request) for request in asked_for(func, name)]
        assert set.union(*lines) >= set(range(prod(conv.out_shape) // LINE)), name


@pytest.mark.parametrize(
    ("conv", "config", "residual"),
    [
        pytest.param(POINT, ConvConfig(32, 32, 14), False, id="nothing is added"),
        pytest.param(
            ConvWorkload(1, 16, 4, 4, 32, (1, 1)), ConvConfig(16, 32, 4), True, id="small"
        ),
        pytest.param(
            ConvWorkload(1, 64, 28, 28, 72, (1, 1)), ConvConfig(16, 24, 7), True, id="split lines"
        ),
        pytest.param(
            ConvWorkload(1, 4, 56, 56, 64, (1, 1)), ConvConfig(4, 64, 7), True, id="few steps"
        ),
    ],
)
def test_no_requests(conv: ConvWorkload, config: ConvConfig, residual: bool) -> None:
    assert asked_for(scheduled(conv, config, residual), "other") == []


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(WinogradConfig(32, 32, 4, 6), id="chunks of rows"),
        pytest.param(WinogradConfig(16, 32, 4, 6, th_bn=2), id="of two rows of tiles"),
        pytest.param(WinogradConfig(32, 32, 4, 3, 2, 6, parallel_oc=True), id="of channels"),
    ],
)
def test_winograd_asks_for_its_output_and_a_residual(config: WinogradConfig) -> None:
    func = scheduled(SQUARE, config)
    for name in (func.params[-1].name.removesuffix("_handle"), "other"):
        lines = [lines_of(*request) for request in asked_for(func, name)]
        assert set.union(*lines) == set(range(prod(SQUARE.out_shape) // LINE)), name
