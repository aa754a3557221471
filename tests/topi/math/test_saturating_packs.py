"""Bytes of clipped int32: right for every vector and every kind of number, by few instructions."""

from __future__ import annotations

import numpy as np
import pytest
from samples import HOST, run
from tvm import te, tirx
from tvm.ir.transform import PassContext
from tvm.s_tir import Schedule

from tvm_neocpu.codegen.kernels import build_module
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.math.saturating_packs import Codes, llvm_code, packed
from tvm_neocpu.topi.tir.loops.rewrite_loops import with_code

INT32 = np.iinfo("int32")
VALUES = np.array(
    [
        *(INT32.min, INT32.min + 1, INT32.max, INT32.max - 1, -(2**15) - 1, -(2**15), 2**15 - 1),
        *(2**15, 2**16, -(2**16), 2**15 - 4, -1, 0, 1, 126, 127, 128, 129, 254, 255, 256, -127),
        *(-128, -129, -255, -256, 77, 33, 5),
    ],
    "int32",
)
CODES = [
    Codes("uint8", 0, 255),
    Codes("uint8", 0, 255, 3),
    Codes("uint8", 3, 255, 3),
    Codes("uint8", 0, 200),
    Codes("uint8", 255, 255, 255),
    Codes("int8", -128, 127),
    Codes("int8", -100, 120, 20),
]
BITS = [
    pytest.param(
        bits,
        marks=pytest.mark.skipif(feature not in HOST.features, reason=f"this CPU has no {feature}"),
        id=feature,
    )
    for bits, feature in ((256, "avx2"), (512, "avx512bw"))
]


def packing(rows: int, lanes: int, codes: Codes, bits: int) -> tirx.PrimFunc:
    """A function that packs each row as one vector."""
    x = te.placeholder((rows, lanes), "int32", name="x")
    y = te.compute(x.shape, lambda *at: packed(x(*at), codes, bits), name="y")
    sch = Schedule(te.create_prim_func([x, y]))
    sch.vectorize(sch.get_loops(sch.get_sblock("y"))[-1])
    return with_code(sch.mod["main"], llvm_code(codes, bits))


# 1, a part of a register, registers, some and a part, more than one register of bytes.
@pytest.mark.parametrize("lanes", [1, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 96, 128])
@pytest.mark.parametrize("bits", BITS)
def test_every_number_of_lanes(bits: int, lanes: int) -> None:
    values = np.resize(VALUES, (len(VALUES) + 1, lanes))
    for codes in CODES:
        found = run(packing(*values.shape, codes, bits), [values], values.shape, codes.dtype)
        np.testing.assert_array_equal(found, expected(values, codes), err_msg=str(codes))


def expected(values: np.ndarray, codes: Codes) -> np.ndarray:
    half = np.iinfo("int16")
    shifted = np.clip(values, half.min, half.max).astype("int64") + codes.zero
    return np.clip(shifted, codes.low, codes.high).astype(codes.dtype)


@pytest.mark.parametrize(
    ("mcpu", "lanes"), [("znver3", 32), ("skylake-avx512", 64), ("znver4", 64)]
)
def test_a_register_takes_three_packs_and_one_permutation(mcpu: str, lanes: int) -> None:
    asm = assembly(mcpu, lanes, Codes("uint8", 0, 255))
    assert (asm.count("vpackssdw"), asm.count("vpackuswb"), asm.count("vpermd")) == (2, 1, 1)
    assert not any(name in asm for name in ("vpmovsdw", "vpmovuswb", "vpermq", "vinserti"))


def test_bounds_of_the_type_need_no_instruction() -> None:
    asm = assembly("znver4", 64, Codes("uint8", 0, 255))
    assert "vpmaxsw" not in asm and "vpminsw" not in asm and "vpaddsw" not in asm
    tighter = assembly("znver4", 64, Codes("uint8", 3, 200, 3))
    assert all(name in tighter for name in ("vpmaxsw", "vpminsw", "vpaddsw"))


@pytest.mark.parametrize(
    ("target", "bits"),
    [
        ("llvm -mcpu=nehalem", 0),
        ("llvm -mtriple=aarch64-linux-gnu", 0),
        ("llvm -mcpu=haswell", 256),
        ("llvm -mcpu=knl", 256),
        ("llvm -mcpu=skylake-avx512 -mattr=-avx512bw", 256),
        ("llvm -mcpu=skylake-avx512", 512),
    ],
)
def test_only_what_the_cpu_has(target: str, bits: int) -> None:
    assert parse_target(target).cpu.packs == bits


def assembly(mcpu: str, lanes: int, codes: Codes) -> str:
    target = parse_target(f"llvm -mcpu={mcpu}")
    func = packing(1, lanes, codes, target.cpu.packs).with_attr("global_symbol", "main")
    return build_module({"main": func}, target.target, PassContext.current()).inspect_source("asm")
