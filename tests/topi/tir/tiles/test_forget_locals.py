"""What was held in registers is overwritten behind the loops that held it."""

from __future__ import annotations

import re

import pytest
import tvm
from tvm.s_tir import SBlockRealize
from tvm.tirx import AttrStmt, For, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.tiles.forget_locals import forget_locals

CPU = Cpu("skylake-avx512", AVX512, cores=2)
CONV = ConvWorkload(1, 32, 16, 16, 32, (3, 3), padding=(1, 1, 1, 1))
DIRECT = ConvConfig(ic_bn=16, oc_bn=16, reg_n=8, oh_bn=2, parallel_oc=True)
WINOGRAD = WinogradConfig(ic_bn=16, oc_bn=16, tile=4, reg_n=4)


def outline(stmt: Stmt) -> list[str]:
    """Loops in brackets around what they hold, ``0`` where a buffer is overwritten."""
    if isinstance(stmt, SeqStmt):
        return [mark for part in stmt for mark in outline(part)]
    if isinstance(stmt, SBlockRealize):
        forgotten = stmt.block.name_hint == "forgotten"
        return ["0"] if forgotten else outline(stmt.block.body)
    inside = outline(stmt.body) if isinstance(stmt, For | AttrStmt) else []
    return ["[", *inside, "]"] if isinstance(stmt, For) and inside else inside


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(DIRECT, "[ 0 ]", id="a tile's accumulators, behind all tiles"),
        # Rows behind the packing; behind each product its accumulators, then both transforms'.
        pytest.param(WINOGRAD, "[ 0 [ 0 0 0 ] ]", id="each behind the nest that holds it"),
    ],
)
def test_locals_are_overwritten_behind_their_nest(config: Config, expected: str) -> None:
    assert " ".join(outline(kernel(CONV, config, CPU).body)) == expected


def test_what_holds_nothing_is_left_alone() -> None:
    move = TransformWorkload(1, 32, 4, 4, 0, 16)
    func = schedule_blocks(unscheduled(move, TransformConfig()), CPU)
    assert forget_locals(func, CPU).same_as(func)


def test_the_inverse_transform_has_the_registers_to_itself() -> None:
    """With the product's tile kept alive two thirds of it touched the stack."""
    conv = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
    target = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    func = kernel(conv, WinogradConfig(64, 32, 4, 14), target.cpu)
    built = tvm.compile(func, target=target.target)
    loops = re.split(r"\n\.LBB\S+:", built.mod.inspect_source("asm"))
    inverse = min((loop for loop in loops if loop.count("vmaxps") >= 16), key=len)
    on_stack = len(re.findall(r"\(%rsp\), %[zy]mm|%[zy]mm\d+, \d*\(%rsp\)", inverse))
    assert on_stack < 40
