"""Parallel bodies in functions of their own."""

from __future__ import annotations

from dataclasses import replace

import tvm
from tvm.tirx import AttrStmt, For, ForKind, Stmt

from tvm_neocpu.core.config import ConvConfig
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.target import parse_target
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.rewrite_loops import rewrite_loops, with_body

CONV = ConvWorkload(1, 256, 14, 14, 256, (1, 1))
CONFIG = ConvConfig(64, 32, 14, True, 1, 1, True)


def outlined(config: ConvConfig) -> dict[ForKind, set[bool]]:
    """Whether loops of each kind hold an outlined body."""
    found: dict[ForKind, set[bool]] = {}

    def look(loop: For, body: Stmt, outer: tuple[For, ...]) -> For:
        found.setdefault(ForKind(int(loop.kind)), set()).add(isinstance(body, AttrStmt))
        return with_body(loop, body)

    rewrite_loops(kernel(CONV, config), look)
    return found


def test_parallel_loops_and_no_others() -> None:
    kinds = outlined(CONFIG)
    assert kinds.pop(ForKind.PARALLEL) == {True}
    assert set.union(*kinds.values()) == {False}


def test_without_a_parallel_loop_nothing_is_outlined() -> None:
    assert True not in set.union(*outlined(replace(CONFIG, parallel_oc=False, oh_bn=14)).values())


def test_the_accumulator_stays_in_registers_beside_a_prefetch() -> None:
    """In the loop that prefetches, nothing is stored: LLVM knows that no pointer meets the tile."""
    assembly = tvm.compile(kernel(CONV, CONFIG), target=parse_target().target).mod.inspect_source(
        "asm"
    )
    lines = [line.strip() for line in assembly.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith(("prefetch", "prfm")))
    end = next(i for i in range(at, len(lines)) if lines[i].startswith(("jne", "b.ne", "jb", "jl")))
    loop = lines[at:end]
    assert any("fma" in line or "fmla" in line for line in loop)
    stores = [x for x in loop if x.startswith(("vmovup", "vmovap")) and x.endswith(")")]
    assert not stores
