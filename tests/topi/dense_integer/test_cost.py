"""The integer dense template's cost model."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import BYTES_BY_VPMADDWD, VPMADDWD
from tvm_neocpu.core.types import FP32, U8S8
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.topi.dense.workload import DenseWorkload

ZEN_3 = Cpu("znver3", AVX2, cores=1, dots=(VPMADDWD,))


def test_integers_are_predicted_faster_than_floats() -> None:
    for layer in (DenseWorkload(1, 2048, 1000, U8S8), DenseWorkload(196, 512, 512, U8S8)):
        whole, floats = (ranked(each, ZEN_3)[0] for each in (layer, replace(layer, types=FP32)))
        assert floats.seconds > 1.25 * whole.seconds


def test_large_weights_of_one_row_are_read_as_bytes() -> None:
    cpu = replace(ZEN_3, dots=(VPMADDWD, BYTES_BY_VPMADDWD))
    assert ranked(DenseWorkload(1, 25088, 4096, U8S8), cpu)[0].config.dot == 4
    assert ranked(DenseWorkload(64, 512, 512, U8S8), cpu)[0].config.dot == 2
