"""The integer dense template's space: tiles that leave a register for the product."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import BYTES_BY_VPMADDWD, VPDPBUSD, VPMADDWD, VPMADDWD_512
from tvm_neocpu.core.types import U8S8, U8S16
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.space import space

HASWELL = Cpu("haswell", AVX2, cores=1, dots=(VPMADDWD, BYTES_BY_VPMADDWD))


def test_tiles_fit_beside_what_a_step_needs() -> None:
    found = space(DenseWorkload(48, 64, 96, U8S8), HASWELL)
    assert {config.dot for config in found} == {2}
    for config in found:
        vectors = config.oc_bn // 8
        assert config.reg_n == 1 or config.reg_n * vectors + vectors + 2 <= 16


def test_one_row_takes_weights_as_bytes_too() -> None:
    """They are half as large, and memory decides."""
    found = space(DenseWorkload(1, 64, 96, U8S8), HASWELL)
    assert {config.reg_n for config in found} == {1}
    assert {config.dot for config in found} == {2, 4}
    wide = space(DenseWorkload(1, 64, 96, U8S16), HASWELL)
    assert {config.dot for config in wide} == {2}
    vnni = Cpu("cascadelake", AVX512, cores=1, dots=(VPDPBUSD, VPMADDWD_512))
    assert {config.dot for config in space(DenseWorkload(1, 64, 96, U8S8), vnni)} == {4}
