"""The CPU description, and what Linux is read for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_neocpu.core import cpu as cpu_module
from tvm_neocpu.core.cpu import (
    AVX2,
    AVX512,
    KIB,
    MIB,
    NEON,
    SSE,
    Cpu,
    Isa,
    VectorUnit,
    cache_sizes,
    isa_of,
    physical_cores,
)


def test_what_follows_from_the_isa() -> None:
    skylake = Cpu("skylake-avx512", AVX512, cores=1, ghz=2.5)
    lanes = [Cpu("", isa, 1).lanes("float32") for isa in (AVX512, AVX2, NEON, SSE)]
    assert lanes == [16, 8, 4, 4]
    assert skylake.peak_gflops("float32") == 160
    assert skylake.with_cores(8).cores == 8


@pytest.mark.parametrize(
    ("dtype", "lanes", "line"),
    [("float64", 8, 8), ("float32", 16, 16), ("bfloat16", 32, 32), ("uint8", 64, 64)],
)
def test_a_type_says_how_many_elements_registers_and_lines_hold(
    dtype: str, lanes: int, line: int
) -> None:
    cpu = Cpu("skylake-avx512", AVX512, cores=1, fma_per_cycle=2, ghz=2.0)
    unit = cpu.unit(dtype)
    assert (unit.lanes, unit.registers, unit.line) == (lanes, 32, line)
    assert cpu.multiply_adds_per_cycle(dtype) == 2 * lanes
    assert cpu.peak_gflops(dtype) == 2 * 2 * lanes * 2.0


def test_a_register_holds_less_than_a_cache_line_where_it_is_shorter() -> None:
    unit = Cpu("", AVX2, 1).unit("float32")
    assert (unit.lanes, unit.line) == (8, 16)


@pytest.mark.parametrize(
    ("block", "registers"), [(1, 1), (4, 1), (12, 3), (16, 1), (24, 3), (48, 3), (13, 13), (64, 4)]
)
def test_a_block_takes_vectors_of_the_largest_power_of_two_that_divides_it(
    block: int, registers: int
) -> None:
    assert VectorUnit(16, 32, 16).registers_of(block) == registers


def test_a_tile_has_accumulators_weights_and_streamed_inputs() -> None:
    unit = VectorUnit(16, 32, 16)
    assert unit.tile_registers(14, 2) == 28 + 2 + 1
    assert unit.holds_tile(14, 2)
    assert not unit.holds_tile(15, 2)
    assert unit.spilled(15, 2) == 1
    assert unit.holds_tile(15, 2, streamed=0)


@pytest.mark.parametrize("isa", [AVX512, AVX2, NEON, SSE])
def test_the_widest_tile_of_one_vector_just_fits(isa: Isa) -> None:
    unit = Cpu("", isa, 1).unit("float32")
    assert unit.holds_tile(unit.max_pixels, 1)
    assert not unit.holds_tile(unit.max_pixels + 1, 1)


@pytest.mark.parametrize(
    ("features", "isa"),
    [
        ({"avx512f", "avx2", "fma"}, AVX512),
        ({"avx2", "fma"}, AVX2),
        ({"avx2"}, SSE),
        ({"neon", "sve"}, NEON),
        (set(), SSE),
    ],
)
def test_widest_isa_of_the_features(features: set[str], isa: Isa) -> None:
    assert isa_of(frozenset(features)) is isa


def write_caches(root: Path, *entries: tuple[str, str, str]) -> Path:
    for index, (level, kind, size) in enumerate(entries):
        folder = root / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(level + "\n")
        (folder / "type").write_text(kind + "\n")
        (folder / "size").write_text(size + "\n")
    return root


def test_cache_sizes_are_those_of_data(tmp_path: Path) -> None:
    root = write_caches(
        tmp_path,
        ("1", "Data", "48K"),
        ("1", "Instruction", "32K"),
        ("2", "Unified", "2M"),
        ("3", "Unified", "34603008"),
    )
    assert cache_sizes(root) == {1: 48 * KIB, 2: 2 * MIB, 3: 33 * MIB}


def test_cache_entries_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    root = write_caches(
        tmp_path, ("x", "Data", "48K"), ("2", "Unified", ""), ("3", "Unified", "8M")
    )
    (tmp_path / "index9").mkdir()
    assert cache_sizes(root) == {3: 8 * MIB}
    assert cache_sizes(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("allowed", "siblings", "quota", "cores"),
    [
        ({0, 1, 2, 3}, lambda cpu: str(cpu), None, 4),
        ({0, 1, 2, 3}, lambda cpu: f"{cpu % 2},{cpu % 2 + 2}", None, 2),
        ({0, 1, 2, 3}, lambda cpu: str(cpu), 2.9, 2),
        ({0, 1, 2, 3}, lambda cpu: str(cpu), 0.5, 1),
        ({5}, lambda cpu: str(cpu), 64.0, 1),
    ],
    ids=["plain", "hyper-threads", "quota", "part of a core", "affinity"],
)
def test_physical_cores(
    allowed: set[int],
    siblings: object,
    quota: float | None,
    cores: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_module, "allowed_cpus", lambda: allowed)
    monkeypatch.setattr(cpu_module, "core_key", siblings)
    monkeypatch.setattr(cpu_module, "_cgroup_quota", lambda: quota)
    assert physical_cores() == cores


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000", 1.5), ("max 100000", None), ("nonsense", None)]
)
def test_cgroup_v2_quota(text: str, quota: float | None, tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(text + "\n")
    assert cpu_module._cgroup_quota(file, tmp_path / "none") == quota


@pytest.mark.parametrize(("text", "quota"), [("50000", 0.5), ("-1", None)])
def test_cgroup_v1_quota(text: str, quota: float | None, tmp_path: Path) -> None:
    (tmp_path / "cpu.cfs_quota_us").write_text(text + "\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_module._cgroup_quota(tmp_path / "none", tmp_path) == quota
