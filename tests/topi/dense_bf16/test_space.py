"""Which layers take the bf16 dense template, and tiles that fit the registers."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.space import accepts, space

ZEN_4 = Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))
ROWS = DenseWorkload(197, 768, 3072, BF16_WEIGHTS)


def test_several_rows_on_a_cpu_with_the_instruction() -> None:
    assert accepts(ROWS, ZEN_4)
    assert not accepts(ROWS, Cpu("skylake-avx512", AVX512, 1))
    assert not accepts(replace(ROWS, batch=1), ZEN_4)


def test_tiles_fit_the_registers() -> None:
    found = space(ROWS, ZEN_4)
    assert found and all(config.copies is False for config in found)
    for config in found:
        vectors = config.oc_bn // 16
        assert config.reg_n == 1 or config.reg_n * vectors + vectors + 1 <= 32


def test_blocks_of_outputs_are_split_only_where_they_are_whole() -> None:
    odd = replace(ROWS, out_features=3000)
    assert all(config.oc_bn in (24, 8) or not config.parallel_oc for config in space(odd, ZEN_4))
