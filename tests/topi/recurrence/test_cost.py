"""The predicted time of a recurrent layer follows its products, R's place, its gates, its cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.topi.recurrence.cost import predict_seconds
from tvm_neocpu.topi.recurrence.layer import GATES, Activation, RecurrentLayer

CPU = Cpu("cpu", AVX2, cores=1)
CPUS = [CPU, Cpu("wide", AVX512, cores=8), Cpu("arm", NEON, cores=4)]


def layer(hidden: int, batch: int = 1, kind: str = "LSTM", steps: int = 40) -> RecurrentLayer:
    functions = (Activation("tanh"),) * {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
    return RecurrentLayer(kind, steps, batch, hidden, (False,), (functions,))


def peak_seconds(some: RecurrentLayer, cpu: Cpu) -> float:
    return some.flops / (1e9 * cpu.peak_gflops(some.dtype) * cpu.cores)


@pytest.mark.parametrize("kind", GATES)
def test_all_products_of_all_steps_are_counted(kind: str) -> None:
    both = replace(layer(7, 3, kind, steps=5), reverses=(False, True))
    assert both.flops == 2 * 5 * 2 * 3 * (GATES[kind] * 7) * 7
    assert both.sizes == "5 steps x 2 directions, batch 3, hidden 7"


@pytest.mark.parametrize("cpu", CPUS, ids=lambda cpu: cpu.name)
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(("hidden", "batch"), [(5, 1), (48, 1), (256, 32), (1024, 1)])
def test_no_layer_beats_the_peak(kind: str, hidden: int, batch: int, cpu: Cpu) -> None:
    some = layer(hidden, batch, kind)
    assert predict_seconds(some, cpu) > peak_seconds(some, cpu)


def test_steps_follow_each_other() -> None:
    one, ten = (predict_seconds(layer(48, steps=steps), CPU) for steps in (4, 40))
    assert ten == pytest.approx(10 * one)


def test_r_from_memory_is_slower_than_r_from_a_cache() -> None:
    some = layer(1024)
    small = replace(CPU, l3=1 << 20, l2=1 << 18)
    seconds = some.steps * 4 * 1024 * 1024 * 4 / small.dram_bytes_per_cycle / (small.ghz * 1e9)
    large = replace(CPU, l3=1 << 25)
    assert predict_seconds(some, small) >= seconds > 1.5 * predict_seconds(some, large)


def test_rows_share_what_is_read_of_r() -> None:
    assert predict_seconds(layer(1024, 8), CPU) < 4 * predict_seconds(layer(1024), CPU)


def test_every_row_has_its_gates() -> None:
    """An RNN without products to speak of costs what its activations cost."""
    assert predict_seconds(layer(8, 64), CPU) > 8 * predict_seconds(layer(8, 4), CPU)
