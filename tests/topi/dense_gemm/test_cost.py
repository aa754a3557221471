"""What the cost model of the template for many rows must rank rightly."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.cost import predict_seconds
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
ALONE = SKYLAKE.with_cores(1)


def price(rows: int, config: GemmConfig, cpu: Cpu = SKYLAKE) -> float:
    return predict_seconds(DenseWorkload(rows, 384, 768), config, cpu)


def test_rows_that_overhang_are_charged() -> None:
    config = GemmConfig(32, 14, 1)
    assert price(183, config, ALONE) > price(182, config, ALONE)
    assert price(183, config, ALONE) > 0.98 * price(196, config, ALONE)


def test_a_chunk_for_each_core_beats_one_for_all() -> None:
    together, shared = GemmConfig(32, 14, 14), GemmConfig(32, 14, 7)
    assert price(196, shared) < 0.7 * price(196, together)


def test_a_copy_of_rows_that_lie_well_does_not_pay() -> None:
    assert price(196, GemmConfig(32, 14, 7, copies=True)) > price(196, GemmConfig(32, 14, 7))


def test_rows_held_in_registers_pay() -> None:
    assert price(196, GemmConfig(32, 14, 7)) < 0.5 * price(196, GemmConfig(32, 1, 98))
