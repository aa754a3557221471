"""The integer template's cost model: what an instruction multiplies decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD, VPMADDWD
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.types import FP32, U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.cost import predict_seconds
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.cost.ranking import ranked

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
ZEN_3 = Cpu("znver3", AVX2, cores=1, dots=(VPMADDWD,))
ZEN_4 = Cpu("znver4", AVX512, cores=1, dots=(VPDPBUSD,))


def best(cpu: Cpu) -> Candidate:
    """The integer template's; Winograd of integers has a cost model of its own."""
    template = IntegerConfig.template
    return next(one for one in ranked(CONV, cpu) if one.config.template == template)


@pytest.mark.parametrize(("cpu", "gain"), [(ZEN_3, 1.3), (ZEN_4, 2.5)], ids=["dot 2", "dot 4"])
def test_integers_are_predicted_faster_than_floats(cpu: Cpu, gain: float) -> None:
    whole = best(cpu).seconds
    direct = min(
        candidate.seconds
        for candidate in ranked(replace(CONV, types=FP32), cpu)
        if candidate.config.template == "conv2d_NCHWc"
    )
    assert direct > gain * whole


def test_a_full_register_tile_is_preferred() -> None:
    config = best(ZEN_3).config
    assert config.oc_bn % 8 == 0 and config.reg_m * config.reg_n * (config.oc_bn // 8) >= 10


def test_the_copy_of_the_image_costs() -> None:
    config = IntegerConfig(16, 16, 7, oh_bn=7, dot=4)
    unpadded = replace(CONV, height=58, width=58, padding=(0, 0, 0, 0))
    padded = replace(CONV, pad_value=3)  # no zeros, which a tile would leave out
    assert predict_seconds(padded, config, ZEN_4) > predict_seconds(unpadded, config, ZEN_4)
