"""CPU families: each holds what differs from the defaults, and gives the same CPU as ever."""

from __future__ import annotations

from dataclasses import fields

import pytest
import tvm

from tvm_neocpu.core.machine.cpu import AVX2, KIB, MIB, Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.targets.families import (
    FAMILIES,
    FIGURES,
    GUIDES,
    MEASURED,
    PUBLISHED,
    canonical_name,
    family,
    origin_of,
    source_of,
    with_family,
)

HASWELL = (32 * KIB, 256 * KIB, 8 * MIB, 3.0, 2, 2, 5, 32.0, 10.0, 4.0, 16.0)
SKYLAKE_X = (32 * KIB, 1 * MIB, 24 * MIB, 2.5, 2, 2, 4, 32.0, 10.0, 4.0, 16.0)
SAPPHIRE_RAPIDS = (48 * KIB, 2 * MIB, 48 * MIB, 2.5, 2, 2, 4, 47.6, 5.9, 6.0, 10.4)
NEOVERSE = (64 * KIB, 1 * MIB, 32 * MIB, 2.5, 2, 2, 4, 32.0, 10.0, 4.0, 16.0)
# l1, l2, l3, GHz, FMAs and loads per cycle, FMA latency, bytes per cycle from L2, L3, memory by one
# core and by all cores. Figures are repeated here so that no default changes a family in silence.
FROZEN = {
    "haswell": HASWELL,
    "broadwell": HASWELL,
    "skylake": (32 * KIB, 256 * KIB, 8 * MIB, 3.0, 2, 2, 4, 32.0, 10.0, 4.0, 16.0),
    "skylake-avx512": SKYLAKE_X,
    "cascadelake": SKYLAKE_X,
    "cooperlake": SKYLAKE_X,
    "icelake-client": (48 * KIB, 512 * KIB, 8 * MIB, 2.5, 1, 2, 4, 32.0, 10.0, 4.0, 16.0),
    "icelake-server": (48 * KIB, 1280 * KIB, 32 * MIB, 2.8, 2, 1, 4, 46.7, 8.2, 4.6, 9.0),
    "sapphirerapids": SAPPHIRE_RAPIDS,
    "emeraldrapids": SAPPHIRE_RAPIDS,
    "graniterapids": (*SAPPHIRE_RAPIDS[:3], 3.6, 2, 2, 4, 51.1, 4.7, 4.4, 8.6),
    "znver1": (32 * KIB, 512 * KIB, 8 * MIB, 3.0, 1, 1, 5, 32.0, 10.0, 4.0, 16.0),
    "znver2": (32 * KIB, 512 * KIB, 16 * MIB, 3.0, 2, 2, 5, 32.0, 10.0, 4.0, 16.0),
    "znver3": (32 * KIB, 512 * KIB, 32 * MIB, 3.2, 2, 2, 4, 32.0, 17.0, 5.6, 9.7),
    "znver4": (32 * KIB, 1 * MIB, 32 * MIB, 3.7, 1, 1, 4, 32.0, 23.0, 7.4, 10.0),
    "znver5": (48 * KIB, 1 * MIB, 32 * MIB, 3.9, 2, 2, 4, 32.0, 16.0, 10.0, 12.0),
    "cortex-a53": (32 * KIB, 512 * KIB, 512 * KIB, 1.4, 1, 1, 8, 32.0, 10.0, 4.0, 16.0),
    "cortex-a55": (32 * KIB, 128 * KIB, 1 * MIB, 1.8, 1, 1, 4, 32.0, 10.0, 4.0, 16.0),
    "cortex-a510": (32 * KIB, 512 * KIB, 8 * MIB, 1.8, 1, 1, 4, 32.0, 10.0, 4.0, 16.0),
    "cortex-a72": (32 * KIB, 1 * MIB, 1 * MIB, 1.5, 1, 1, 7, 32.0, 10.0, 4.0, 16.0),
    "cortex-a76": (64 * KIB, 512 * KIB, 2 * MIB, 2.4, 2, 2, 4, 32.0, 10.0, 4.0, 16.0),
    "neoverse-n1": (64 * KIB, 1 * MIB, 32 * MIB, 2.5, 2, 2, 4, 19.3, 10.0, 4.0, 16.0),
    "neoverse-n2": NEOVERSE,
    "neoverse-v1": (64 * KIB, 1 * MIB, 32 * MIB, 2.6, 4, 3, 4, 32.0, 10.0, 4.0, 16.0),
    "neoverse-v2": (64 * KIB, 2 * MIB, 36 * MIB, 2.5, 4, 3, 4, 32.0, 10.0, 4.0, 16.0),
    "apple-m1": (128 * KIB, 12 * MIB, 8 * MIB, 3.2, 4, 3, 4, 32.0, 10.0, 4.0, 16.0),
}

# Registers that LLVM's scheduler wants; all others leave none.
NARROW = {"znver4": 2}
SPARE = {"cortex-a53": 5, "cortex-a55": 5, "cortex-a510": 5, "neoverse-n1": 2}


def frozen_cpu(name: str) -> Cpu:
    l1, l2, l3, ghz, fma, load, latency, from_l2, from_l3, from_dram, from_dram_total = FROZEN[name]
    return Cpu(
        name,
        AVX2,
        4,
        l1=l1,
        l2=l2,
        l3=l3,
        ghz=ghz,
        fma_per_cycle=fma,
        load_per_cycle=load,
        fma_latency=latency,
        l2_bytes_per_cycle=from_l2,
        l3_bytes_per_cycle=from_l3,
        dram_bytes_per_cycle=from_dram,
        dram_total_bytes_per_cycle=from_dram_total,
        spare_registers=SPARE.get(name, 0),
        narrow=NARROW.get(name, 1),
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_gives_the_same_cpu_as_ever(name: str) -> None:
    assert with_family(Cpu(name, AVX2, 4)) == frozen_cpu(name)


def test_no_family_is_forgotten() -> None:
    assert FAMILIES.keys() == FROZEN.keys()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_holds_only_what_differs_from_the_defaults(name: str) -> None:
    defaults = {field.name: field.default for field in fields(Cpu)}
    repeated = {key for key, value in FAMILIES[name].items() if defaults[key] == value}
    assert repeated == set()


@pytest.mark.parametrize("figure", ["l2_bytes_per_cylce", "l4", "name", "cores", "isa"])
def test_a_name_that_is_no_figure_is_refused(figure: str) -> None:
    with pytest.raises(TypeError, match=f"no figure {figure}"):
        family(**{figure: 1})


def test_a_family_builds_on_another_and_leaves_it_alone() -> None:
    base = family(l1=1, l2=2)
    assert family(base, l2=3) == {"l1": 1, "l2": 3}
    assert base == {"l1": 1, "l2": 2}


def test_a_cpu_without_a_family_keeps_its_figures() -> None:
    cpu = Cpu("nehalem", AVX2, 4, l2=7)
    assert with_family(cpu) == cpu


def test_every_family_is_a_cpu_that_llvm_knows() -> None:
    triples = ("x86_64-linux-gnu", "aarch64-linux-gnu")
    for name in FAMILIES:
        assert canonical_name(name) == name
        assert any(tvm.target.codegen.llvm_is_valid_cpu(name, triple) for triple in triples)


def test_a_figure_says_where_it_comes_from() -> None:
    assert origin_of("znver3", "dram_bytes_per_cycle") == "measured"
    assert origin_of("znver4", "dram_bytes_per_cycle") == "measured"
    assert origin_of("znver4", "narrow") == "vendor"
    assert origin_of("znver4", "l2") == "vendor"
    assert origin_of("unknown", "l2") == "guess"


WITHOUT_A_GUIDE = {"apple-m1", "cortex-a53"}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("figure", sorted(FIGURES))
def test_every_figure_has_a_source_or_is_a_guess(name: str, figure: str) -> None:
    origin, source = origin_of(name, figure), source_of(name, figure)
    assert origin in ("measured", "published", "vendor", "compiled", "guess")
    assert bool(source) == (origin != "guess")
    if figure in FAMILIES[name] and origin == "guess":
        # What a family says without a source is what a board decides.
        assert figure in ("ghz", "l3") or name in WITHOUT_A_GUIDE


def test_families_have_a_guide_but_for_two() -> None:
    assert FAMILIES.keys() - GUIDES.keys() == WITHOUT_A_GUIDE
    assert FAMILIES.keys() >= GUIDES.keys()


def test_what_was_published_is_a_figure_of_a_family_and_says_where() -> None:
    assert PUBLISHED.keys() <= FAMILIES.keys()
    for figures in PUBLISHED.values():
        assert figures.keys() <= FIGURES
        assert all(".com" in source or ".org" in source for source in figures.values())
    assert origin_of("neoverse-n1", "l2_bytes_per_cycle") == "published"
    assert "Altra" in source_of("neoverse-n1", "l2_bytes_per_cycle")


def test_what_was_measured_is_a_figure_of_a_family() -> None:
    figures = {field.name for field in fields(Cpu)}
    assert MEASURED.keys() <= FAMILIES.keys()
    assert all(found <= figures for _, found in MEASURED.values())


def test_a_slow_instruction_is_known_to_be_slow() -> None:
    """Golden Cove multiplies fewer pairs of bf16 than numbers of fp32."""
    server = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids").cpu
    zen_4 = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu
    assert server.bf16 is not None and server.bf16.products == 0.5
    assert zen_4.bf16 is not None and zen_4.bf16.products == 2
