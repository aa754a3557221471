"""Tiles stay in registers, and what runs in parallel pays for its forks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, KIB, NEON, SSE, Cpu
from tvm_neocpu.topi.recurrence.layer import Activation, RecurrentLayer
from tvm_neocpu.topi.recurrence.tiles import Sharing, course_of, cycles_of_step

CPU = Cpu("cpu", AVX2, cores=2)


def layer(hidden: int, batch: int = 1, directions: int = 1, kind: str = "LSTM") -> RecurrentLayer:
    functions = (Activation("sigmoid"), Activation("tanh"), Activation("tanh"))
    both = (functions,) * directions
    return RecurrentLayer(kind, 40, batch, hidden, (False, True)[:directions], both)


@pytest.mark.parametrize("isa", [SSE, AVX2, AVX512, NEON])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [1, 3, 7, 100])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_sums_and_what_they_read_fit_into_the_registers(isa, dtype, batch, kind) -> None:  # type: ignore[no-untyped-def]
    some = replace(layer(50, batch, kind=kind), dtype=dtype)
    course = course_of(some, Cpu("cpu", isa, cores=2))
    assert len({tile.rows for tile in course.tiles}) == 1
    for gates, tile in zip(some.phases, course.tiles, strict=True):
        assert len(gates) % tile.gates == 0
        assert tile.rows <= batch
        assert (tile.sums + 1) * tile.rows + 1 <= isa.vector_registers


def test_a_small_layer_runs_on_one_core() -> None:
    assert course_of(layer(16), CPU).sharing is Sharing.NOTHING


def test_two_directions_run_apart() -> None:
    """They do not wait for each other between steps."""
    course = course_of(layer(128, directions=2), CPU)
    assert (course.sharing, course.groups) == (Sharing.PIECES, 1)


def test_one_large_direction_is_split_in_each_step() -> None:
    assert course_of(layer(512), CPU).sharing is Sharing.BLOCKS


def test_both_products_of_a_gru_pass_through_the_same_cache() -> None:
    """R of 768 KiB outgrows an L2 of 512, one half of it does not. No product alone does."""
    cpu = replace(CPU, l2=512 * KIB, l3_bytes_per_cycle=17.0, ghz=3.2)
    assert course_of(layer(256, kind="GRU"), cpu).sharing is Sharing.BLOCKS
    assert course_of(layer(256, kind="GRU"), replace(cpu, l2=1024 * KIB)).sharing is Sharing.NOTHING


def test_small_rows_are_split_between_the_cores() -> None:
    course = course_of(layer(64, batch=16), CPU)
    assert (course.sharing, course.groups) == (Sharing.PIECES, 2)


def test_rounded_rows_stay_together() -> None:
    """A state is rounded by the range of all rows."""
    rounded = replace(layer(64, batch=16), rounds=True)
    assert course_of(rounded, CPU).groups == 1


@pytest.mark.parametrize("hidden", [96, 256])
def test_four_rows_are_one_tile(hidden: int) -> None:
    """R is read once a step then: 0.58 ms against 0.70 in two tiles (Zen 3, 96 units, 40 steps)."""
    (tile,) = course_of(layer(hidden, batch=4), CPU.with_cores(1)).tiles
    assert tile.rows == 4


def test_one_core_shares_nothing() -> None:
    assert course_of(layer(512, directions=2), CPU.with_cores(1)).sharing is Sharing.NOTHING


@pytest.mark.parametrize("directions", [1, 2])
def test_more_units_take_longer(directions: int) -> None:
    cycles = []
    for hidden in (32, 64, 128, 256, 512, 1024):
        some = layer(hidden, directions=directions)
        cycles.append(cycles_of_step(some, course_of(some, CPU), CPU))
    assert cycles == sorted(cycles)
