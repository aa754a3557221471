"""Measuring the machine: the buffers, the figures computed from rounds, kernels in miniature."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.kernels import measure_machine
from tvm_neocpu.contrib.kernels.measure_machine import (
    Buffers,
    buffers_of,
    measure,
    not_issued,
    parameters,
    probes,
)
from tvm_neocpu.core.machine.cpu import AVX2, KIB, MIB, Cpu
from tvm_neocpu.targets import parse_target

CPU = Cpu("haswell", AVX2, 4, l2=256 * KIB, l3=8 * MIB, fma_per_cycle=2)
BUFFERS = Buffers(1, (20, 30, 40), 99)
ISSUED = ("fma_per_cycle", "load_per_cycle", "fma_latency")


def a_round(clock: float, l3: tuple[float, float, float] = (16, 16, 16)) -> dict[str, float]:
    """Probes of a machine of ``clock`` GHz.

    It reads 32 bytes per cycle from L2, ``l3`` by buffer size, 4 from memory and 6 by all cores.
    """
    per_cycle = {"l2": 32.0, "dram": 4.0, "dram of all cores": 6.0}
    per_cycle.update({f"l3 {size}": rate for size, rate in zip(BUFFERS.l3, l3, strict=True)})
    return {"peak": clock * 32, **{name: x * clock * 1e9 for name, x in per_cycle.items()}}


def test_buffers_of_a_desktop() -> None:
    found = buffers_of(CPU)
    assert found.l2 == 128 * KIB
    assert found.l3 == tuple(n * MIB for n in (2, 3, 4, 5, 6, 7, 8))
    assert found.dram == 64 * MIB


def test_l3_buffers_are_no_l2_buffers() -> None:
    assert buffers_of(replace(CPU, l2=768 * KIB)).l3 == tuple(n * MIB for n in (3, 4, 5, 6, 7, 8))
    assert buffers_of(replace(CPU, l2=2 * MIB)).l3 == ()
    assert buffers_of(replace(CPU, l2=512 * KIB, l3=512 * KIB)).l3 == ()


def test_the_memory_buffer_outgrows_every_cache() -> None:
    assert buffers_of(replace(CPU, l3=384 * MIB)).dram == 8 * 384 * MIB


def test_bytes_per_cycle_are_of_the_rounds_own_clock() -> None:
    rounds = [a_round(clock) for clock in (3.0, 1.5, 2.0)]
    assert parameters(rounds, BUFFERS, CPU) == {
        "ghz": 2.0,
        "l2_bytes_per_cycle": 32.0,
        "l3_bytes_per_cycle": 16.0,
        "l3": 40,
        "dram_bytes_per_cycle": 4.0,
        "dram_total_bytes_per_cycle": 6.0,
    }


@pytest.mark.parametrize(
    ("rates", "held"),
    [((16, 12, 11.3), 40), ((16, 12, 11), 30), ((16, 11, 11), 20), ((16, 11, 16), 20)],
)
def test_the_l3_ends_where_reads_slow_down(rates: tuple[float, float, float], held: int) -> None:
    assert parameters([a_round(2.0, rates)], BUFFERS, CPU)["l3"] == held


@pytest.mark.parametrize("outlier", [(1, 1, 30), (30, 1, 1)])
def test_an_outlier_counts_for_nothing(outlier: tuple[float, float, float]) -> None:
    rounds = [a_round(2.0), a_round(2.0, outlier), a_round(2.0)]
    assert parameters(rounds, BUFFERS, CPU) == parameters([a_round(2.0)], BUFFERS, CPU)


def test_what_cannot_be_measured_is_left_out() -> None:
    found = a_round(2.0)
    del found["dram of all cores"]
    measured = parameters([found], Buffers(1, (), 99), CPU)
    assert list(measured) == ["ghz", "l2_bytes_per_cycle", "dram_bytes_per_cycle"]


def test_rounds_interleave_the_probes() -> None:
    asked = []
    fakes = {name: lambda name=name: asked.append(name) or 1.0 for name in "abc"}
    assert measure(fakes, rounds=2) == [{"a": 1.0, "b": 1.0, "c": 1.0}] * 2
    assert asked == list("abcabc")


def test_probes_measure_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_machine, "RUN_BYTES", MIB)
    target = parse_target("llvm")
    target = replace(target, cpu=target.cpu.with_cores(2))
    buffers = Buffers(64 * KIB, (256 * KIB,), MIB)
    rounds = measure(probes(target, buffers), rounds=1)
    measured = parameters(rounds, buffers, target.cpu)
    assert measured["l3"] == 256 * KIB
    expected = {*parameters([a_round(2.0)], BUFFERS, CPU), "fork_join"}
    # Beside other tests a core's rates may be no whole numbers.
    assert set(measured) | {*not_issued(rounds, measured)} == {*expected, *ISSUED}
    assert all(value > 0 for value in measured.values())


def test_rates_are_whole_numbers_and_say_what_the_clock_is() -> None:
    """At 2 GHz: one FMA of 8 lanes and two loads in a cycle, 5 cycles for an FMA of a chain."""
    found = a_round(2.0) | {"clock": 2e9, "peak": 31.5, "l1": 2e9 * 2 * 32 * 0.97, "chain": 0.4e9}
    measured = parameters([found], BUFFERS, CPU)
    assert measured["fma_per_cycle"] == 1
    assert measured["load_per_cycle"] == 2
    assert measured["fma_latency"] == 5
    assert measured["ghz"] == pytest.approx(31.5 / 16, abs=1e-3)


@pytest.mark.parametrize(
    ("probe", "left_out"),
    [
        ("l1", {"load_per_cycle"}),
        ("peak", {"fma_per_cycle"}),
        ("chain", {"fma_latency"}),
        ("clock", {"load_per_cycle", "fma_per_cycle", "fma_latency"}),
    ],
)
def test_rates_of_a_disturbed_probe_are_left_out(probe: str, left_out: set[str]) -> None:
    """Ice Lake beside others: 0.7 of two loads in a cycle came out as one, and every layer of
    ResNet-18 had another config for that."""
    found = a_round(2.0) | {"clock": 2e9, "peak": 31.5, "l1": 2e9 * 2 * 32 * 0.97, "chain": 0.4e9}
    rounds = [found | {probe: found[probe] * share} for share in (0.7, 0.4, 0.3)]
    steady, disturbed = (parameters(each, BUFFERS, CPU) for each in ([found] * 3, rounds))
    assert set(steady) - set(disturbed) == left_out


@pytest.mark.parametrize("share", [0.6, 0.7])
def test_fmas_that_a_neighbour_takes_are_no_fewer_units(share: float) -> None:
    """Zen 3 beside a thread on the same core: 1.2 FMAs in a cycle in every round came out as one
    unit, and 1.0 in half of the rounds."""
    found = a_round(2.0) | {"clock": 2e9, "peak": 63.0, "l1": 2e9 * 2 * 32 * 0.97, "chain": 0.4e9}
    steady = [found | {"peak": share * found["peak"]}] * 3
    rounds = [found | {"peak": found["peak"] * part} for part in (0.5, 0.4, 0.5, 0.35, 0.4)]
    for each in (steady, rounds):
        measured = parameters(each, BUFFERS, CPU)
        assert not_issued(each, measured) == ["fma_per_cycle"]
        assert measured["load_per_cycle"] == 2


@pytest.mark.parametrize(
    ("forked", "alone", "seconds"), [(5e5, 1e7, 1.9e-6), (1e7, 1e7, 1e-8), (2e7, 1e7, 1e-8)]
)
def test_what_a_parallel_region_costs(forked: float, alone: float, seconds: float) -> None:
    found = a_round(2.0) | {"parallel calls": forked, "calls": alone}
    assert parameters([found], BUFFERS, CPU)["fork_join"] == pytest.approx(seconds)


def test_probes_that_others_disturb_are_asked_again_for_a_while(monkeypatch) -> None:
    monkeypatch.setattr(measure_machine, "MEASURE_SECONDS", 3600.0)
    rates = iter([1.0, 5.0, 2.0, 1.0, 5.0, 3.0, 4.9])
    rounds = measure({"busy": lambda: next(rates), "calm": lambda: 1.0}, rounds=3)
    assert len(rounds) == 7
    assert measure_machine.unsteady(rounds) == []
    assert measure_machine.unsteady(rounds[:6]) == ["busy"]


def test_what_stays_disturbed_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(measure_machine, "MEASURE_SECONDS", 0.0)
    rates = iter(range(1, 100))
    assert len(measure({"busy": lambda: float(next(rates))}, rounds=3)) == 3


def test_what_rests_on_a_disturbed_probe_is_not_believed() -> None:
    """32 MiB that others read too looked like memory: L3 seemed to hold 8."""
    measured = {"ghz": 3.7, "l3": 2**23, "l3_bytes_per_cycle": 23.0, "dram_bytes_per_cycle": 5.0}
    assert measure_machine.believed(measured, []) == measured
    without_l3 = {"ghz": 3.7, "dram_bytes_per_cycle": 5.0}
    assert measure_machine.believed(measured, [f"l3 {2**25}"]) == without_l3
    assert measure_machine.believed(without_l3, [measure_machine.DRAM]) == {"ghz": 3.7}
