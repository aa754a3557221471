"""What the prefetches of a scheduled function ask for."""

from __future__ import annotations

from itertools import product

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import For, Stmt

from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body

# fp32 elements of a cache line.
LINE = 16


def asked_for(func: tirx.PrimFunc, name: str) -> list[tuple[tuple[For, ...], tirx.Expr]]:
    """Every prefetch of a buffer: the loops around it, the element's place in the buffer."""
    found: list[tuple[tuple[For, ...], tirx.Expr]] = []

    def look(loop: For, body: Stmt, outer: tuple[For, ...]) -> For:
        parts = body if isinstance(body, tirx.SeqStmt) else [body]
        for part in parts:
            if isinstance(part, SBlockRealize) and part.block.name_hint == "prefetch":
                load = part.block.body.value.args[0].args[0]
                if load.source.name == name:
                    found.append(((*outer, loop), _place(load)))
        return with_body(loop, body)

    rewrite_loops(func, look)
    return found


def _place(load: TensorLoad) -> tirx.Expr:
    flat: tirx.Expr = tirx.const(0, "int32")
    for extent, index in zip(load.source.shape, load.indices, strict=True):
        flat = flat * int(extent) + index
    return flat


def lines_of(loops: tuple[For, ...], element: tirx.Expr, line: int = LINE) -> set[int]:
    """All lines of so many elements that one prefetch asks for in the course of the loops."""
    found = set()
    for at in product(*(range(int(loop.extent)) for loop in loops)):
        analyzer = Analyzer()
        for loop, value in zip(loops, at, strict=True):
            analyzer.bind(loop.loop_var, tirx.const(value, "int32"))
        found.add(int(analyzer.simplify(element)) // line)
    return found
