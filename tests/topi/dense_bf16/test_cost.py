"""What the model expects of dense layers in bf16: up to twice fp32's speed."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig

ZEN_4 = Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))
ROWS = DenseWorkload(197, 768, 3072, BF16_WEIGHTS)


def test_it_gains_where_products_decide() -> None:
    before, after = (best_per_layout(each, ZEN_4)[0] for each in (replace(ROWS, types=FP32), ROWS))
    assert isinstance(after.config, Bf16DenseConfig)
    assert 1.4 < before.seconds / after.seconds <= 2.1
    assert after.seconds >= ROWS.flops / (ZEN_4.peak_gflops(BF16_WEIGHTS) * 1e9)
