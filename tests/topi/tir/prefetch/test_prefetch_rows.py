"""The next row of a tensor that comes from memory is asked for, every line of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from prefetches import asked_for, lines_of
from tvm import te, tirx

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, KIB, Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.math.softmax import softmax
from tvm_neocpu.topi.schedule_function import schedule_function

ROWS = 6
HASWELL = Cpu("haswell", AVX2, cores=1)
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=1)
HERE = parse_target()


def scheduled(columns: int, cpu: Cpu) -> tirx.PrimFunc:
    x = te.placeholder((ROWS, columns), name="x")
    return schedule_function(te.create_prim_func([x, softmax(x, 1)]), cpu)


def asked_lines(func: tirx.PrimFunc, name: str) -> set[int]:
    return set().union(*(lines_of(*request) for request in asked_for(func, name)))


@pytest.mark.parametrize("cpu", [HASWELL, SKYLAKE], ids=lambda cpu: cpu.isa.name)
@pytest.mark.parametrize("name", ["x", "softmax"])
def test_every_line_of_the_next_row(cpu: Cpu, name: str) -> None:
    columns = 512
    func = scheduled(columns, replace(cpu, l3=4 * KIB))
    line = columns // 16
    assert asked_lines(func, name) == set(range(line, (ROWS + 1) * line))


def test_a_tensor_in_l3_is_not_asked_for() -> None:
    assert not asked_for(scheduled(512, HASWELL), "x")


def test_a_row_that_l1_would_lose_is_not_asked_for() -> None:
    assert not asked_for(scheduled(8192, replace(HASWELL, l3=4 * KIB)), "x")


@pytest.mark.parametrize("columns", [512, 500, 37])
def test_requests_beyond_the_last_row_do_no_harm(columns: int) -> None:
    func = scheduled(columns, replace(HERE.cpu, l3=KIB))
    given = np.random.default_rng(1).standard_normal((ROWS, columns)).astype("float32")
    out = tvm.runtime.empty(given.shape, "float32")
    tvm.compile(func, HERE.target)(tvm.runtime.tensor(given), out)
    powers = np.exp(given - given.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5)
