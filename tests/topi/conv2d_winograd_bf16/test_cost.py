"""The bf16 Winograd template's cost model: which tiles pay beside vdpbf16ps's own direct layers."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_winograd_bf16.cost import predict_seconds, pricing
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig
from tvm_neocpu.topi.conv2d_winograd_bf16.space import space
from tvm_neocpu.topi.cost.ranking import ranked

ZEN_4 = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=1").cpu


def layer(channels: int, size: int) -> ConvWorkload:
    pads = (1, 1, 1, 1)
    return ConvWorkload(1, channels, size, size, channels, (3, 3), padding=pads, types=BF16_WEIGHTS)


@pytest.mark.parametrize(("channels", "size"), [(64, 56), (128, 28), (256, 14)])
def test_tiles_beat_the_direct_kernel(channels: int, size: int) -> None:
    """Zen 4 measured, direct and Winograd: 1030 and 505 us, 1004 and 429, 1010 and 391."""
    seconds: dict[str, float] = {}
    for one in ranked(layer(channels, size), ZEN_4):
        seconds.setdefault(one.config.template, one.seconds)
    gain = seconds[Bf16Config.template] / seconds[Bf16WinogradConfig.template]
    assert 1.4 < gain < 4


def test_many_configs_have_the_prices_of_each() -> None:
    conv = layer(64, 28)
    price = pricing(conv, ZEN_4)
    for config in space(conv, ZEN_4)[::29]:
        assert price(config) == predict_seconds(conv, config, ZEN_4)
