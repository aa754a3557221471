"""Configs: frozen, printable, replayable."""

from __future__ import annotations

import dataclasses

import pytest

from tvm_neocpu.core.network.config import Config, knobs
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig

CONFIGS = [ConvConfig(0, 16, 7), DepthwiseConfig(8, 16, 4), DenseConfig(32)]


def test_a_config_prints_as_it_is_written() -> None:
    config = ConvConfig(16, 32, 14, reg_m=2)
    assert eval(repr(config)) == config


@pytest.mark.parametrize("config", CONFIGS)
def test_knobs_make_the_same_config_again(config: Config) -> None:
    values = knobs(config)
    assert list(values) == [field.name for field in dataclasses.fields(config)]
    assert type(config)(**values) == config


def test_a_config_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ConvConfig(16, 32, 14).reg_n = 7


def test_a_class_without_a_template_is_no_config() -> None:
    assert all(isinstance(config, Config) for config in CONFIGS)
    assert not isinstance(object(), Config)
