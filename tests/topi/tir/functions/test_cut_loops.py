"""Indices of 32 bits: loops of 64 lose the hints that TVM cuts them by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_net import Net
from tvm import s_tir, te, tirx
from tvm.s_tir import Schedule
from tvm_ffi import structural_equal

from tvm_neocpu import relay
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.quantizing.quantize_model import Settings, quantize_model
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop, narrow_indices
from tvm_neocpu.topi.tir.loops.rewrite_loops import run_passes

CPU = Cpu("skylake-avx512", AVX512, cores=1)


def shifted(
    extent: tirx.Expr | int, cuts: bool = True, dtype: str = "float32", through: str = ""
) -> tirx.PrimFunc:
    """y[x] = x > 2 ? a[x - 3] : 0, whose loop is marked to be cut; by way of another type."""
    a = te.placeholder([extent], dtype, "a")
    zero, other = tirx.const(0, dtype), through or dtype

    def value(x: tirx.Var) -> tirx.Expr:
        return tirx.if_then_else(x > 2, a[x - 3].astype(other).astype(dtype), zero)

    y = te.compute([extent], value, name="y")
    sch = Schedule(te.create_prim_func([a, y]))
    if cuts:
        cut_loop(sch, sch.get_loops(sch.get_sblock("y"))[0])
    return sch.mod["main"]


def wide(extent: int) -> tirx.IntImm:
    return tirx.IntImm("int64", extent)


def is_cut(func: tirx.PrimFunc) -> bool:
    """Whether TVM's own lowering makes several loops of the one."""
    passes = [
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        s_tir.transform.LoopPartition(),
    ]
    return run_passes(func, *passes).script().count("for ") > 1


def test_a_loop_of_64_bits_is_not_cut_by_tvm_and_one_of_32_bits_is() -> None:
    """Where the first fails TVM has learnt it, and this rewrite may go."""
    assert not is_cut(shifted(wide(50)))
    assert is_cut(shifted(50))


def test_a_marked_loop_of_64_bits_is_cut() -> None:
    func = shifted(wide(50))
    narrow = narrow_indices(func, CPU)
    assert is_cut(narrow) and "int64" not in narrow.script()
    assert narrow.attrs == func.attrs
    assert structural_equal(narrow, shifted(50))


@pytest.mark.parametrize(
    "func",
    [
        pytest.param(shifted(50), id="32 bits"),
        pytest.param(shifted(wide(50), cuts=False), id="no mark"),
        pytest.param(shifted(tirx.Var("n", "int64")), id="an extent that is not known"),
        pytest.param(shifted(wide(2**31)), id="too many elements"),
        pytest.param(shifted(wide(50), dtype="int64"), id="tensors of 64 bits"),
        pytest.param(shifted(wide(50), through="int64"), id="values of 64 bits"),
        pytest.param(shifted(wide(50), through="uint64"), id="unsigned ones"),
    ],
)
def test_other_functions_stay(func: tirx.PrimFunc) -> None:
    assert narrow_indices(func, CPU).same_as(func)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_network_in_tiles_is_compiled(precision: str, tmp_path: Path) -> None:
    """Instructions of tiles take a distance of 64 bits; shapes of Relax make loops of 64, too."""
    net = Net((1, 64, 14, 14))
    x = net("Relu", net.conv("data", 64, 64, 3))
    model = net.model(net.conv(x, 64, 64, 1))
    if precision == "int8":
        data = np.random.default_rng(0).standard_normal((1, 64, 14, 14), dtype="float32")
        model = quantize_model(model, "net", [{"data": data}] * 2, Settings()).model
    library = relay.build(
        relay.frontend.from_onnx(model)[0],
        target="llvm -mcpu=sapphirerapids",
        precision="bf16" if precision == "bf16" else "fp32",
    )
    library.export_library(tmp_path / "net.tar")
