"""Parallel loops that are too small for a fork."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_neocpu.core.machine.cpu import AVX2
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.math.vector_math import exp
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.tir.functions.serial_where_small import serial_where_small

TARGET = parse_target()
TWO = replace(TARGET.cpu, cores=2, fork_join=2e-6, ghz=3.0, l3_bytes_per_cycle=16.0)


def doubled(rows: int, columns: int) -> tirx.PrimFunc:
    x = te.placeholder((rows, columns), name="x")
    y = te.compute((rows, columns), lambda i, j: x[i, j] * te.const(2.0, "float32") + x[i, 0])
    return schedule_function(te.create_prim_func([x, y]), TWO)


def forks(func: tirx.PrimFunc) -> int:
    return func.script().count("T.parallel(")


def test_a_small_function_does_not_fork() -> None:
    small, large = doubled(64, 160), doubled(640, 1600)
    assert forks(small) == forks(large) == 1
    assert forks(serial_where_small(small, TWO)) == 0
    assert forks(serial_where_small(large, TWO)) == 1


@pytest.mark.parametrize("cpu", [replace(TWO, cores=1), replace(TWO, fork_join=0.0)])
def test_where_a_fork_costs_nothing_all_stays(cpu) -> None:  # type: ignore[no-untyped-def]
    func = doubled(64, 160)
    assert forks(serial_where_small(func, cpu)) == 1


def test_a_slow_fork_takes_larger_functions() -> None:
    assert forks(serial_where_small(doubled(640, 1600), replace(TWO, fork_join=1e-3))) == 0


def test_all_of_a_formula_counts() -> None:
    """An exponential function is twenty instructions behind names for its parts."""
    x = te.placeholder((64, 160), name="x")
    y = te.compute((64, 160), lambda i, j: exp(x[i, j]))
    cpu = replace(TWO, isa=AVX2)
    func = schedule_function(te.create_prim_func([x, y]), cpu)
    assert forks(func) == forks(serial_where_small(func, cpu)) == 1


def test_unknown_extents_stay_parallel() -> None:
    n = te.var("n", "int64")
    x = te.placeholder((n, 64), name="x")
    y = te.compute((n, 64), lambda i, j: x[i, j] + x[i, 0])
    func = schedule_function(te.create_prim_func([x, y]), replace(TWO, fork_join=0.0))
    assert forks(serial_where_small(func, TWO)) == forks(func)


def test_answers_stay() -> None:
    """Outlined chunks of the general rule, in a loop that became serial."""
    func = serial_where_small(doubled(64, 160), replace(TWO, fork_join=1.0))
    x = np.random.default_rng(0).standard_normal((64, 160)).astype("float32")
    out = tvm.runtime.empty((64, 160), "float32")
    tvm.compile(func, TARGET.target)(tvm.runtime.tensor(x), out)
    np.testing.assert_allclose(out.numpy(), x * 2 + x[:, :1], rtol=1e-6)


def test_a_templates_chunks_are_one_function_then() -> None:
    conv = ConvWorkload(1, 16, 8, 8, 16, (1, 1))
    forking = kernel(conv, ConvConfig(8, 8, 4, parallel_oc=True), TWO)
    func = serial_where_small(forking, replace(TWO, fork_join=1.0))
    assert forks(forking) > 0 and forks(func) == 0
    tvm.compile(func, TARGET.target)  # LLVM's verifier looks at it
