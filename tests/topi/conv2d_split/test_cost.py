"""What the cost model says of split data beside the template that they compete with."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_split.cost import predict_seconds
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.conv2d_split.space import space
from tvm_neocpu.topi.cost.ranking import ranked

CONV = ConvWorkload(1, 256, 14, 14, 1024, (1, 1), types=U8S8)
ZEN_3 = Cpu("znver3", AVX2, cores=1, dots=dots_of(frozenset({"sse2", "avx2"})))


def seconds(conv: ConvWorkload) -> dict[str, float]:
    """The least of each template."""
    found: dict[str, float] = {}
    for candidate in ranked(conv, ZEN_3):
        found.setdefault(candidate.config.template, candidate.seconds)
    return found


def test_split_data_gain_where_many_filters_read_them() -> None:
    """Zen 3: 256 channels into 1024 take 561 us, 722 by vpmaddwd; the copy is paid once."""
    many, few = seconds(CONV), seconds(replace(CONV, out_channels=8))
    gains = [found["conv2d_NCHWc_int"] / found[SplitConfig.template] for found in (many, few)]
    assert gains[0] > 1.15 and gains[0] > gains[1]


def by_block(conv: ConvWorkload) -> dict[int, float]:
    """The least seconds for each block of input channels."""
    found: dict[int, float] = {}
    for config in space(conv, ZEN_3):
        seconds = predict_seconds(conv, config, ZEN_3)
        found[config.ic_bn] = min(seconds, found.get(config.ic_bn, seconds))
    return found


def test_all_of_a_wide_block_fits_less_often() -> None:
    """Zen 3, data of ResNet-50: blocks of 16 channels take 579 us, of 32 640, of 64 653."""
    seconds = by_block(CONV)
    assert seconds[16] < seconds[32] < seconds[64]


def test_narrow_blocks_pay_for_their_copy() -> None:
    """Few filters read it: 512x28x28->128 takes 813, 755, 724 and 675 us in blocks of 8 to 64."""
    seconds = by_block(replace(CONV, in_channels=512, height=28, width=28, out_channels=32))
    assert seconds[8] > seconds[16] > seconds[64]
    many = by_block(CONV)
    assert seconds[8] / seconds[64] > many[8] / many[64]


def test_a_block_is_tested_for_each_tap() -> None:
    """Numbers of a window are scalars: blocks of 8 have eight times those of 64."""
    conv = replace(CONV, kernel=(3, 3), padding=(1, 1, 1, 1), stride=(2, 2), out_channels=256)
    seconds = by_block(conv)
    assert seconds[8] > seconds[16]
