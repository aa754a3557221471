"""The row template's space: where rows of bytes take fewer words than pixels do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.machine.dot import SDOT, VPDPBUSD, VPMADDUBSW, VPMADDWD, VPMADDWD_512
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer_rows.geometry import misfit
from tvm_neocpu.topi.conv2d_integer_rows.space import accepts, space

CASCADE_LAKE = Cpu("cascadelake", AVX512, cores=1, dots=(VPDPBUSD, VPMADDWD_512))
STEM = ConvWorkload(1, 3, 32, 32, 16, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8)


@pytest.mark.parametrize(("width", "saves"), [(7, True), (5, True), (3, False)])
def test_it_is_offered_where_words_are_saved(width: int, saves: bool) -> None:
    assert accepts(replace(STEM, kernel=(7, width)), CASCADE_LAKE) == saves


@pytest.mark.parametrize("change", [{"dilation": (1, 2)}, {"in_channels": 64}])
def test_rows_are_runs_of_a_plain_image(change: dict[str, object]) -> None:
    conv = replace(STEM, **change)  # type: ignore[arg-type]
    assert not accepts(conv, CASCADE_LAKE)
    config = space(STEM, CASCADE_LAKE)[0]
    assert misfit(STEM, config) is None and misfit(conv, config) is not None
    assert misfit(STEM, replace(config, dot=2)) is not None


@pytest.mark.parametrize(
    "cpu",
    [
        Cpu("haswell", AVX2, cores=1, dots=(VPMADDWD,)),
        Cpu("haswell", AVX2, cores=1, dots=(VPMADDUBSW, VPMADDWD)),
        Cpu("cortex-a76", NEON, cores=1, dots=(SDOT,)),
    ],
)
def test_it_is_for_one_instruction_a_word(cpu: Cpu) -> None:
    assert not accepts(replace(STEM, weight_bits=7), cpu)


def test_a_config_reads_plain_data_and_unrolls_no_columns() -> None:
    for config in space(STEM, CASCADE_LAKE):
        assert (config.ic_bn, config.dot, config.unroll_ker) == (0, 4, False)
