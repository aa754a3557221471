"""The row template's cost model: fewer words in the inner loop take less time."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer import cost as single
from tvm_neocpu.topi.conv2d_integer.space import space as single_space
from tvm_neocpu.topi.conv2d_integer_rows.cost import predict_seconds, pricing
from tvm_neocpu.topi.conv2d_integer_rows.space import space

CPU = Cpu("znver4", AVX512, cores=1, dots=(VPDPBUSD,))
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8)


def test_six_words_are_cheaper_than_seven() -> None:
    """Zen 4 measured: 633 us against 729."""
    rows = min(map(pricing(STEM, CPU), space(STEM, CPU)))
    pixels = min(map(single.pricing(STEM, CPU), single_space(STEM, CPU)))
    assert 0.7 < rows / pixels < 0.95


def test_two_cores_take_less_time() -> None:
    config = space(STEM, CPU)[0]
    assert predict_seconds(STEM, config, replace(CPU, cores=2)) < predict_seconds(STEM, config, CPU)


def test_many_configs_have_the_prices_of_each() -> None:
    price = pricing(STEM, CPU)
    for config in space(STEM, CPU)[::7]:
        assert price(config) == predict_seconds(STEM, config, CPU)
