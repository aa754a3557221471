"""Winograd in groups: blocks of whole groups, and of parts of one."""

from __future__ import annotations

import numpy as np
import pytest
from winograd_layer import check_layer

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.misfit import misfit

CONV = ConvWorkload(1, 512, 12, 12, 16, (3, 3), padding=(1, 1, 1, 1))


def in_groups(channels: int, out_channels: int, groups: int, side: int, stride: int = 1):
    return ConvWorkload(
        1, channels, side, side, out_channels, (3, 3), (stride,) * 2, (1, 1, 1, 1), groups=groups
    )


GROUP_CASES = [
    pytest.param(in_groups(32, 32, 4, 14), WinogradConfig(8, 8, 4, 4), id="blocks of a group"),
    pytest.param(
        in_groups(32, 32, 4, 14), WinogradConfig(16, 32, 4, 4, th_bn=2), id="of two and of four"
    ),
    pytest.param(
        in_groups(32, 32, 4, 14),
        WinogradConfig(32, 16, 4, 5, FLAT, 4, True),
        id="chunks of channels, tiles as one axis",
    ),
    pytest.param(
        in_groups(32, 32, 4, 13, stride=2), WinogradConfig(32, 16, 2, 4, 1, 1, True), id="stride 2"
    ),
    pytest.param(
        in_groups(64, 32, 2, 7), WinogradConfig(64, 32, 2, 2, 2, 2), id="twice the inputs"
    ),
    pytest.param(
        in_groups(64, 64, 2, 13), WinogradConfig(16, 8, 4, 4, th_bn=2), id="blocks of a large group"
    ),
    pytest.param(
        in_groups(48, 96, 3, 13),
        WinogradConfig(8, 16, 4, 5, FLAT, 4, True),
        id="chunks of a large group's channels",
    ),
    pytest.param(
        in_groups(64, 32, 2, 14, stride=2),
        WinogradConfig(16, 16, 2, 4, 1, 2),
        id="blocks of inputs, whole outputs",
    ),
    pytest.param(
        in_groups(32, 64, 4, 9), WinogradConfig(16, 8, 3, 3), id="whole inputs, blocks of outputs"
    ),
]


@pytest.mark.parametrize(("conv", "config"), GROUP_CASES)
def test_a_block_of_a_group_reads_its_own_channels(
    conv: ConvWorkload, config: WinogradConfig
) -> None:
    assert misfit(conv, config) is None
    rng = np.random.default_rng(0)
    data = rng.normal(size=conv.in_shape).astype("float32")
    weight = rng.normal(size=conv.weight_shape).astype("float32")
    check_layer(conv, config, data, weight, 1e-5)


def test_short_panels_of_groups_are_asked_for_early() -> None:
    """256 bytes are multiplied in 30 cycles: the next panel's would come too late."""
    groups = WinogradGeometry(in_groups(256, 256, 32, 28), WinogradConfig(32, 64, 4, 7))
    assert groups.panels_ahead * 8 * 8 * 4 == 8 * 1024
    assert WinogradGeometry(CONV, WinogradConfig(16, 16, 4, 4)).panels_ahead == 1
