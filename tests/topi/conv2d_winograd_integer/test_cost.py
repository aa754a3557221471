"""The integer Winograd template's cost model: how many products an instruction makes decides."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD, VPDPWSSD, VPMADDWD
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import IntegerWinogradConfig
from tvm_neocpu.topi.cost.ranking import ranked

CONV = ConvWorkload(1, 128, 28, 28, 128, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
ZEN_3 = Cpu("znver3", AVX2, cores=1, dots=(VPMADDWD,))
ZEN_4 = Cpu("znver4", AVX512, cores=1, dots=(VPDPBUSD, VPDPWSSD))


def best(cpu: Cpu, conv: ConvWorkload = CONV) -> dict[str, float]:
    """Seconds of the direct template and of Winograd by tiles."""
    found: dict[str, float] = {}
    for one in ranked(conv, cpu):
        tile = getattr(one.config, "tile", "")
        found.setdefault(f"{one.config.template} {tile}".strip(), one.seconds)
    return found


DIRECT, WINOGRAD = IntegerConfig.template, IntegerWinogradConfig.template


def test_words_of_16_bits_gain_where_the_direct_template_has_no_others() -> None:
    """Zen 3 measured: direct 1570 us, F(2x2) 814, F(4x4) 607."""
    seconds = best(ZEN_3)
    assert 1.5 < seconds[DIRECT] / seconds[f"{WINOGRAD} 2"] < 2.25
    assert 2 < seconds[DIRECT] / seconds[f"{WINOGRAD} 4"] < 4


def test_words_of_8_bits_leave_little_to_gain() -> None:
    """vpdpbusd makes twice as many products: F(2x2) has 1.1 times fewer left, F(4x4) twice."""
    seconds = best(ZEN_4)
    assert seconds[f"{WINOGRAD} 2"] > seconds[DIRECT]
    assert seconds[DIRECT] / seconds[f"{WINOGRAD} 4"] < 2


@pytest.mark.parametrize("cores", [1, 2])
def test_few_pixels_do_not_pay_for_the_weights_of_large_tiles(cores: int) -> None:
    """Zen 3 measured, weights from memory: F(2x2) 742 us on two threads, 722, F(4x4) 924."""
    cpu = parse_target(f"llvm -mcpu=znver3 -num-cores={cores}").cpu
    late = ConvWorkload(1, 512, 7, 7, 512, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
    assert best(cpu, late)[f"{WINOGRAD} 2"] < best(cpu, late)[f"{WINOGRAD} 4"]
    assert best(cpu, CONV)[f"{WINOGRAD} 4"] < best(cpu, CONV)[f"{WINOGRAD} 2"]
