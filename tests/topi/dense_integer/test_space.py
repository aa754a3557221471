"""The integer dense template's space: tiles that leave a register for the product."""

from __future__ import annotations

from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.dot import VPMADDWD
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.space import space

HASWELL = Cpu("haswell", AVX2, cores=1, dots=(VPMADDWD,))


def test_tiles_fit_beside_what_a_step_needs() -> None:
    found = space(DenseWorkload(48, 64, 96, U8S8), HASWELL)
    assert {config.dot for config in found} == {2}
    for config in found:
        vectors = config.oc_bn // 8
        assert config.reg_n == 1 or config.reg_n * vectors + vectors + 2 <= 16


def test_one_row_has_a_space_too() -> None:
    assert {config.reg_n for config in space(DenseWorkload(1, 64, 96, U8S8), HASWELL)} == {1}
