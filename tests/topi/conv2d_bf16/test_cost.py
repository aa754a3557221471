"""What the model expects of bf16: up to twice fp32's speed where products decide the time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_bf16.implementation import BF16_DIRECT
from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.operator import Implementation

ZEN_4 = Cpu("znver4", AVX512, 1, fma_per_cycle=1, load_per_cycle=1, dots=(VDPBF16PS,))
CONV = ConvWorkload(1, 128, 28, 28, 128, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS)


@cache
def best(template: Implementation, conv: ConvWorkload) -> float:
    price = template.price(conv, ZEN_4)
    return min(price(config) for config in template.space(conv, ZEN_4))


def test_it_gains_where_products_decide() -> None:
    before, after = best(DIRECT, replace(CONV, types=FP32)), best(BF16_DIRECT, CONV)
    assert 1.5 < before / after <= 2.1


def test_it_never_beats_the_instruction() -> None:
    assert best(BF16_DIRECT, CONV) >= CONV.flops / (ZEN_4.peak_gflops(BF16_WEIGHTS) * 1e9)


def test_few_accumulators_wait_for_each_other() -> None:
    narrow, wide = (Bf16Config(ic_bn=128, oc_bn=32, reg_n=pixels) for pixels in (1, 14))
    assert BF16_DIRECT.cost(CONV, narrow, ZEN_4) > 2 * BF16_DIRECT.cost(CONV, wide, ZEN_4)
