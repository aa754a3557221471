"""What a network touches, and that timing between other layers finds the caches used."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig

from tvm_neocpu.core.machine.cpu import MIB
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.tuning.measuring import network_caches
from tvm_neocpu.tuning.measuring.network_caches import evicted_bytes, time_in_network


def test_no_more_is_read_than_the_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_caches, "cache_sizes", lambda: {1: 1, 2: 2, 3: 16 * MIB})
    assert evicted_bytes(3 * MIB) == 3 * MIB
    assert evicted_bytes(100 * MIB) == 20 * MIB


def test_the_network_s_data_passes_before_every_timed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    target = parse_target(None)
    func = kernel(DenseWorkload(1, 64, 64), DenseConfig(oc_bn=16), target.cpu)
    module = tvm.compile(func, target=target.target)
    arguments = [
        tvm.runtime.tensor(np.ones([int(n) for n in buffer.shape], np.float32))
        for buffer in func.params
    ]
    sweeps: list[tuple[int, int]] = []
    monkeypatch.setattr(
        network_caches, "_sweeper", lambda size, threads: lambda: sweeps.append((size, threads))
    )
    config = EvaluatorConfig(number=1, repeat=21, min_repeat_ms=0)
    times = time_in_network(3 * MIB, 2, module.jit(), tvm.cpu(), config, [arguments])
    assert len(times) == 21
    assert set(sweeps) == {(3 * MIB, 2)}
    # The evaluator runs the kernel once more, to warm it up.
    assert len(sweeps) >= 21


@pytest.mark.parametrize(
    ("size", "threads", "read"), [(3 * MIB, 2, 3 * MIB), (1000, 3, 960), (1, 1, 64)]
)
def test_a_sweep_reads_every_cache_line_of_its_bytes(size: int, threads: int, read: int) -> None:
    network_caches._sweeper.cache_clear()
    assert network_caches._sweeper(size, threads)() == read
