"""Bytes of a table: right for every code and number of lanes, and by one instruction for many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from samples import HOST, run
from table_look_ups import TABLE, every_code, look_ups
from tvm import tirx
from tvm.ir.transform import PassContext
from tvm.s_tir import Schedule

from tvm_neocpu.codegen.kernels import build_module
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.look_up import BY_FEATURE, LookUp
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.tir.instructions.plant_look_ups import plant_look_ups


def having(feature: str, by: LookUp) -> object:
    """A CPU that executes it; on others the tests below look at the code made for it."""
    lacks = pytest.mark.skipif(feature not in HOST.features, reason=f"this CPU has no {feature}")
    return pytest.param(replace(HOST.cpu, look_up=by), marks=lacks, id=by.name)


CPUS = [
    pytest.param(replace(HOST.cpu, look_up=None), id="loads"),
    *(having(feature, by) for feature, by in BY_FEATURE if feature != "neon"),
]


# Rows of one element, of a part of a vector, of vectors and something.
@pytest.mark.parametrize("row", [1, 3, 4, 8, 13, 16, 24, 40, 48, 63, 64, 72, 100, 128, 129, 600])
@pytest.mark.parametrize("cpu", CPUS)
def test_every_code(cpu: Cpu, row: int) -> None:
    codes = every_code(5, row)
    found = run(schedule_function(look_ups(5, row), cpu), [codes, TABLE], (5, row), "uint8")
    np.testing.assert_array_equal(found, TABLE[codes])


@pytest.mark.parametrize("lanes", [1, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 96, 128])
@pytest.mark.parametrize("cpu", CPUS)
def test_every_number_of_lanes(cpu: Cpu, lanes: int) -> None:
    codes = every_code(600 // lanes + 1, lanes)
    found = run(vectorised(codes.shape, cpu), [codes, TABLE], codes.shape, "uint8")
    np.testing.assert_array_equal(found, TABLE[codes])


def vectorised(shape: tuple[int, ...], cpu: Cpu) -> tirx.PrimFunc:
    """All of a row at once."""
    sch = Schedule(look_ups(*shape))
    sch.vectorize(sch.get_loops(sch.get_sblock("found"))[-1])
    return plant_look_ups(sch.mod["main"], cpu)


@pytest.mark.parametrize("mcpu", ["znver4", "icelake-server", "sapphirerapids"])
def test_two_permutations_look_64_codes_up(mcpu: str) -> None:
    asm = assembly(f"llvm -mcpu={mcpu}")
    assert asm.count("vpermi2b") + asm.count("vpermt2b") == 2


@pytest.mark.parametrize("mcpu", ["skylake-avx512", "cascadelake"])
def test_two_permutations_of_words_look_32_codes_up(mcpu: str) -> None:
    asm = assembly(f"llvm -mcpu={mcpu}", 32)
    assert asm.count("vpermi2w") + asm.count("vpermt2w") == 2


@pytest.mark.parametrize("mcpu", ["haswell", "znver3"])
def test_sixteen_tables_look_32_codes_up(mcpu: str) -> None:
    asm = assembly(f"llvm -mcpu={mcpu}", 32)
    assert (asm.count("vpshufb"), asm.count("vpblendvb")) == (16, 15)
    assert "vpshufb" not in assembly(f"llvm -mcpu={mcpu}", 8)


def test_neon_looks_16_codes_up() -> None:
    asm = assembly("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
    assert asm.count("tbl\t") >= 1 and asm.count("tbx\t") >= 3


@pytest.mark.parametrize("mcpu", ["x86-64", "nehalem"])
def test_other_cpus_load_each_byte(mcpu: str) -> None:
    target = parse_target(f"llvm -mcpu={mcpu}")
    assert target.cpu.look_up is None
    func = look_ups(1, 64)
    assert plant_look_ups(func, target.cpu).same_as(func)
    assert "vperm" not in assembly(f"llvm -mcpu={mcpu}")


def assembly(text: str, codes: int = 64) -> str:
    target = parse_target(text)
    func = vectorised((1, codes), target.cpu).with_attr("global_symbol", "main")
    return build_module({"main": func}, target.target, PassContext.current()).inspect_source("asm")
