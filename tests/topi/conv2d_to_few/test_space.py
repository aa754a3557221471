"""Which convolutions are to few channels, and that every config of their space fits the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_to_few.geometry import FewGeometry, misfit
from tvm_neocpu.topi.conv2d_to_few.space import accepts, space

CPUS = [Cpu(isa.name, isa, 2) for isa in (AVX512, AVX2, NEON)]
CONV = ConvWorkload(1, 56, 40, 60, 2, (5, 5), padding=(2, 2, 2, 2))


@pytest.mark.parametrize("cpu", CPUS, ids=lambda cpu: cpu.isa.name)
def test_every_config_fits(cpu: Cpu) -> None:
    unit, found = cpu.unit("float32"), space(CONV, cpu)
    assert accepts(CONV, cpu) and found
    for config in found:
        assert misfit(CONV, config) is None
        assert unit.holds_tile(config.reg_n, config.oc_bn)
        assert 2 * config.lanes >= unit.lanes
        assert FewGeometry(CONV, config).chunks >= cpu.cores


@pytest.mark.parametrize(
    "conv",
    [
        pytest.param(replace(CONV, out_channels=9), id="outputs that fill half a vector"),
        pytest.param(replace(CONV, in_channels=3), id="a first convolution"),
        pytest.param(replace(CONV, in_channels=37), id="inputs that no vector divides"),
        pytest.param(replace(CONV, groups=2), id="groups"),
    ],
)
def test_what_stays_with_the_others(conv: ConvWorkload) -> None:
    assert not accepts(conv, CPUS[0])


def test_few_is_less_than_half_a_vector() -> None:
    wide = [accepts(replace(CONV, out_channels=4), cpu) for cpu in CPUS]
    assert wide == [True, True, False]
