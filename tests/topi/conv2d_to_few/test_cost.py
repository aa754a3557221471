"""What the cost model must say of convolutions to few channels."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_to_few.cost import predict_seconds
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig
from tvm_neocpu.topi.cost.ranking import ranked

CPU = Cpu("skylake-avx512", AVX512, cores=1)
LAST = ConvWorkload(1, 32, 512, 512, 1, (5, 5), padding=(2, 2, 2, 2))
CONFIG = FewConfig(16, 1, 8, 16, oh_bn=8)


def test_the_last_layer_of_a_network_that_makes_images_is_summed_over_lanes() -> None:
    best, *others = ranked(LAST, CPU)
    assert best.config.template == FewConfig.template
    direct = next(each for each in others if each.config.template == "conv2d_NCHWc")
    assert direct.seconds > 2 * best.seconds


def test_outputs_that_fill_vectors_are_not() -> None:
    (best, *_) = ranked(replace(LAST, out_channels=8), CPU)
    assert best.config.template != FewConfig.template


def test_a_padded_copy_of_the_whole_image_is_charged() -> None:
    rows, whole = (predict_seconds(LAST, replace(CONFIG, oh_bn=n), CPU) for n in (4, 512))
    assert whole > 1.3 * rows


def test_outputs_cost_what_they_multiply() -> None:
    one, two = (
        predict_seconds(replace(LAST, out_channels=n), replace(CONFIG, oc_bn=n), CPU)
        for n in (1, 2)
    )
    assert 1.1 * one < two < 2.2 * one
