"""Parallel bodies in functions of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from tvm import tirx
from tvm.tirx import AttrStmt, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body

TARGET = parse_target()
CONV = ConvWorkload(1, 256, 14, 14, 256, (1, 1))
CONFIG = ConvConfig(64, 32, 14, True, 1, 1, True)


def outlined(func: tirx.PrimFunc) -> list[str]:
    """The outlined loops: parallel ones by their bodies, serial ones whole."""
    found: list[str] = []

    def look(loop: For, body: Stmt, outer: tuple[For, ...]) -> For:
        if isinstance(body, AttrStmt):
            found.append(f"body of {ForKind(int(loop.kind)).name} at {len(outer)}")
        return with_body(loop, body)

    rewrite_loops(func, look)
    root = func.body.block.body
    parts = list(root) if isinstance(root, SeqStmt) else [root]
    found += ["whole loop" for part in parts if isinstance(part, AttrStmt)]
    return found


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CONFIG, ["body of PARALLEL at 0"]),
        (replace(CONFIG, parallel_oc=False, oh_bn=14), ["whole loop"]),
    ],
    ids=["parallel", "serial"],
)
def test_outermost_loops_and_no_others(config: ConvConfig, expected: list[str]) -> None:
    assert outlined(schedule_blocks(unscheduled(CONV, config), TARGET.cpu)) == expected


def test_the_accumulator_stays_in_registers_beside_a_prefetch() -> None:
    """In the loop that prefetches, nothing is stored: LLVM knows that no pointer meets the tile."""
    lanes = TARGET.cpu.lanes("float32")
    config = replace(CONFIG, oc_bn=lanes, reg_n=7)  # nine registers: AVX2 has sixteen
    built = tvm.compile(kernel(CONV, config, TARGET.cpu), target=TARGET.target)
    lines = [line.strip() for line in built.mod.inspect_source("asm").splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith(("prefetch", "prfm")))
    end = next(i for i in range(at, len(lines)) if lines[i].startswith(("jne", "b.ne", "jb", "jl")))
    loop = lines[at:end]
    assert any("fma" in line or "fmla" in line for line in loop)
    stores = [x for x in loop if x.startswith(("vmovup", "vmovap")) and x.endswith(")")]
    assert not stores
