"""Kernels of a network are timed on data of their own types, the model's choice first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tvm_neocpu.contrib.kernels import measure
from tvm_neocpu.contrib.kernels.measure import (
    INTEGERS,
    random_tensor,
    time_kernel,
    time_workloads,
)
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.topi.dense.workload import DenseWorkload

CONV = ConvWorkload(1, 32, 14, 14, 32, (3, 3), padding=(1, 1, 1, 1))
DENSE = DenseWorkload(1, 64, 32)


class Peak:
    """The FMA peak of a machine that never drifts."""

    def gflops(self) -> float:
        return 100.0


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "int8"])
def test_random_elements_are_of_the_type_and_not_all_equal(dtype: str) -> None:
    found = random_tensor([4, 50], dtype, np.random.default_rng(0)).numpy()
    assert (found.dtype, found.shape) == (np.dtype(dtype), (4, 50))
    assert 0 <= found.min() < found.max() < INTEGERS


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_is_timed_on_data_of_its_types(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MIN_REPEAT_MS", 0)
    target = parse_target("llvm")
    dense = DenseWorkload(2, 64, 32, uniform(dtype))
    assert time_kernel(dense, ranked(dense, target.cpu)[0].config, target) > 0


def test_the_models_choice_comes_first_then_the_best_of_each_implementation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = parse_target("llvm")
    order = [candidate.config for candidate in ranked(CONV, target.cpu)]
    # Of each implementation's configs the model's second is the fastest.
    second = {
        name: [config for config in order if config.template == name][1]
        for name in {config.template for config in order}
    }
    asked: list[Any] = []

    def seconds(workload: Workload, config: Any, _: object) -> float:
        asked.append(config)
        return 1e-3 if config == second.get(config.template) else 2e-3

    monkeypatch.setattr(measure, "time_kernel", seconds)
    (group, dense) = time_workloads(
        Counter({CONV: 3, DENSE: 1}), target, 2, lambda types, bits: Peak()
    )
    assert group[0].config == order[0]
    assert group[0].rank == 0
    assert {timed.config for timed in group[1:]} == set(second.values())
    templates = Counter(config.template for config in asked)
    assert set(templates.values()) == {2}
    assert all(timed.occurrences == 3 for timed in group)
    assert all(timed.workload == DENSE for timed in dense)


def test_what_a_time_comes_to() -> None:
    timed = measure.KernelTime(
        CONV, ranked(CONV, parse_target().cpu)[0].config, 1e-3, 10.0, 1e-3, 0
    )
    assert timed.gflops == pytest.approx(CONV.flops / 1e6)
    assert timed.share_of_peak == pytest.approx(timed.gflops / 10.0)
    assert timed.moved_bytes == 4 * (2 * 32 * 14 * 14 + 32 * 32 * 9)
