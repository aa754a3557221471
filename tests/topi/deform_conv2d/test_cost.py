"""What the cost model of the deformable template must rank rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deformable import SAME
from nests import SKYLAKE

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d_direct.cost import predict_seconds as direct_seconds
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.deform_conv2d.cost import predict_seconds
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

ONE_CORE = SKYLAKE.with_cores(1)
DEFORM = DeformConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=SAME, masked=True)
CONFIG = DeformConfig(16, 32, 14, 8)


def price(deform: DeformConvWorkload, cpu: Cpu = ONE_CORE, **change: int) -> float:
    return predict_seconds(deform, replace(CONFIG, **change), cpu)


def test_sampling_adds_a_third_to_a_convolution_of_64_filters() -> None:
    """Measured on one core of a Zen 5: 1.25-1.35 times the direct convolution's time."""
    direct = direct_seconds(DEFORM.conv, ConvConfig(16, 32, 14, oh_bn=28), ONE_CORE)
    assert 1.15 < price(DEFORM) / direct < 1.6


def test_sampling_is_shared_by_all_filters() -> None:
    double = replace(DEFORM, out_channels=128)
    assert 1.5 * price(DEFORM) < price(double) < 2 * price(DEFORM)


def test_every_offset_group_has_places_of_its_own() -> None:
    assert price(replace(DEFORM, offset_groups=4)) > price(DEFORM)


def test_narrow_blocks_of_channels_cost_more() -> None:
    assert price(DEFORM, ic_bn=4) > price(DEFORM, ic_bn=8) > price(DEFORM)


@pytest.mark.parametrize("tiles", [3, 5, 9])
def test_places_are_cheapest_in_whole_vectors(tiles: int) -> None:
    assert price(DEFORM, tiles=8) < price(DEFORM, tiles=tiles)


def test_chunks_split_over_filters_only_where_columns_stay_close() -> None:
    """Columns of 8.7 MB, walked by every block of filters, come from L3 each time."""
    large = DeformConvWorkload(1, 256, 25, 38, 256, (3, 3), padding=SAME)
    split = [price(large, SKYLAKE, tiles=4, parallel_oc=split) for split in (False, True)]
    assert split[0] < split[1]


def test_two_cores_are_faster() -> None:
    assert 1.6 < price(DEFORM) / price(DEFORM, SKYLAKE) <= 2
