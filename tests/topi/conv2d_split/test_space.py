"""Which convolutions are computed over split data, and where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_split.space import accepts, space

CONV = ConvWorkload(1, 32, 4, 6, 16, (1, 1), types=U8S8)
ZEN_3 = Cpu("znver3", AVX2, cores=2, dots=dots_of(frozenset({"sse2", "avx2"})))


@pytest.mark.parametrize(
    ("conv", "taken"),
    [
        (CONV, True),
        (replace(CONV, stride=(2, 3)), True),
        (replace(CONV, pad_value=32), True),
        # Most pairs of data around a large zero point have a high part.
        (replace(CONV, pad_value=33), False),
        (replace(CONV, weight_bits=7), False),
        (replace(CONV, in_channels=20), False),
        (replace(CONV, kernel=(3, 3), padding=(1, 1, 1, 1)), True),
        (replace(CONV, groups=2), False),
    ],
    ids=str,
)
def test_what_it_takes(conv: ConvWorkload, taken: bool) -> None:
    assert accepts(conv, ZEN_3) == taken


@pytest.mark.parametrize("cpu", ["cascadelake", "znver4", "x86-64-v2"])
def test_cpus_that_gain_nothing(cpu: str) -> None:
    """Those that have VNNI, or no vpmaddubsw."""
    assert not accepts(CONV, parse_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}").cpu)


def test_blocks_are_whole_steps() -> None:
    found = space(replace(CONV, in_channels=24), ZEN_3)
    assert {config.ic_bn for config in found} == {8}
    assert {(config.dot, config.words, config.signed) for config in found} == {(4, 2, False)}


def test_tiles_leave_room_for_two_words() -> None:
    """10 pixels of a vector leave none of 16 registers: 2 weights and pixels, ones, a product."""
    found = space(CONV, ZEN_3)
    tiles = {(c.reg_m * c.reg_n, ZEN_3.unit("int32").registers_of(c.oc_bn)) for c in found}
    assert (6, 1) in tiles and (3, 2) in tiles and (4, 2) not in tiles


def test_taps_are_a_loop_over_parts_of_a_row() -> None:
    found = space(replace(CONV, kernel=(3, 3)), ZEN_3)
    assert {(config.reg_m, config.unroll_ker) for config in found} == {(1, False)}
