"""When a group is chosen, and of how many rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.cpu import AVX2, KIB, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.ranking import predict_seconds as predict_layer
from tvm_neocpu.topi.fused_block.cost import apart_seconds, best_block, predict_seconds
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member

ZEN3 = Cpu("znver3", AVX2, cores=2, l2=512 * KIB, l3=32 * 1024 * KIB, ghz=3.2)
DEPTHWISE = Member(
    ConvWorkload(1, 384, 14, 14, 384, (3, 3), (1, 1), (1, 1, 1, 1), groups=384),
    DepthwiseConfig(ic_bn=24, oc_bn=24, reg_n=2, reg_m=2),
)
PROJECT = Member(
    ConvWorkload(1, 384, 14, 14, 64, (1, 1)),
    ConvConfig(24, 16, reg_n=2, reg_m=2, oh_bn=7, parallel_oc=True),
)


def test_two_cores_that_would_read_each_others_channels_gain() -> None:
    block = best_block(DEPTHWISE, PROJECT, ZEN3)
    assert block is not None
    assert predict_seconds(block, ZEN3) < apart_seconds(block, ZEN3)


def test_many_cores_keep_the_layers_that_have_too_few_rows_for_them() -> None:
    fine = replace(PROJECT, config=replace(PROJECT.config, oh_bn=1))
    assert best_block(DEPTHWISE, fine, ZEN3) is not None
    assert best_block(DEPTHWISE, fine, ZEN3.with_cores(28)) is None


def test_what_does_not_fit_the_cache_is_no_group() -> None:
    assert best_block(DEPTHWISE, PROJECT, replace(ZEN3, l2=16 * KIB)) is None


def test_layers_that_do_not_fit_together_are_no_group() -> None:
    narrow = replace(PROJECT, config=replace(PROJECT.config, ic_bn=8))
    assert best_block(DEPTHWISE, narrow, ZEN3) is None


def test_one_core_waits_for_no_other() -> None:
    one = ZEN3.with_cores(1)
    members = [predict_layer(m.workload, m.config, one) for m in (DEPTHWISE, PROJECT)]
    assert apart_seconds(FusedBlock(DEPTHWISE, PROJECT, rows=2), one) == pytest.approx(sum(members))
