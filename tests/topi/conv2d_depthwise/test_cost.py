"""What the depthwise template's cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.cpu import AVX512, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.cost import predict_seconds
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_depthwise.space import space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
CONV = ConvWorkload(1, 96, 28, 28, 96, (3, 3), padding=(1, 1, 1, 1), groups=96)
CONFIG = DepthwiseConfig(ic_bn=16, oc_bn=16, reg_n=7, reg_m=2)


def price(conv: ConvWorkload, config: DepthwiseConfig) -> float:
    return predict_seconds(conv, config, SKYLAKE)


def test_the_favourite_fills_vectors_and_unrolls_the_kernel() -> None:
    best = min(space(CONV, SKYLAKE), key=lambda config: price(CONV, config))
    assert best.oc_bn % 16 == 0
    assert best.unroll_ker
    assert best.reg_m * best.reg_n >= 4


def test_half_vectors_take_twice_the_instructions() -> None:
    halved = replace(CONFIG, ic_bn=8, oc_bn=8)
    assert 1.5 < price(CONV, halved) / price(CONV, CONFIG) < 2.2


def test_tiles_that_overhang_are_charged_for_what_they_compute() -> None:
    """Four tiles of seven columns cover 22 as well as 28."""
    assert price(replace(CONV, width=22), CONFIG) > 0.95 * price(CONV, CONFIG)
    assert price(replace(CONV, width=21), CONFIG) < 0.85 * price(CONV, CONFIG)


def test_a_copy_is_charged() -> None:
    unpadded = replace(CONV, height=30, width=30, padding=(0, 0, 0, 0))
    assert unpadded.out_shape == CONV.out_shape
    assert price(unpadded, CONFIG) < price(CONV, CONFIG)
