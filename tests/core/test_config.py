"""Configs: frozen, printable, replayable."""

from __future__ import annotations

import dataclasses

import pytest

from tvm_neocpu.core.config import CONFIG_TYPES, knobs
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig


def test_a_config_prints_as_it_is_written() -> None:
    config = ConvConfig(16, 32, 14, reg_m=2)
    assert eval(repr(config)) == config


@pytest.mark.parametrize("config", [ConvConfig(0, 16, 7), DepthwiseConfig(8, 4), DenseConfig(32)])
def test_knobs_make_the_same_config_again(config: ConvConfig | DepthwiseConfig) -> None:
    values = knobs(config)
    assert list(values) == [field.name for field in dataclasses.fields(config)]
    assert CONFIG_TYPES[config.template](**values) == config


def test_a_config_is_found_by_its_template() -> None:
    for template, kind in CONFIG_TYPES.items():
        assert kind.template == template


def test_depthwise_reads_and_writes_the_same_block() -> None:
    assert DepthwiseConfig(oc_bn=8, reg_n=4).ic_bn == 8


def test_a_config_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ConvConfig(16, 32, 14).reg_n = 7
