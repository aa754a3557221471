"""Which convolutions are computed over split data, and where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.dot import dots_of
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
        (replace(CONV, kernel=(3, 3)), False),
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


def test_blocks_are_whole_vectors_of_pairs() -> None:
    found = space(replace(CONV, in_channels=24), ZEN_3)
    assert {config.ic_bn for config in found} == {8}
    assert {(config.dot, config.words, config.signed) for config in found} == {(4, 1, False)}
