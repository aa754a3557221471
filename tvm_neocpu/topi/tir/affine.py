"""How accesses of a loop nest move in memory, and expressions with other values of its loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import BufferStore


def stride(
    analyzer: Analyzer, buffer: tirx.Buffer, indices: Sequence[Expr], var: tirx.Var
) -> int | None:
    """How many elements an access moves in memory with a loop; ``None`` if not evenly.

    ``analyzer`` knows the extents of the loops around.
    """
    place: Expr = tirx.const(0, "int64")
    for extent, index in zip(buffer.shape, indices, strict=True):
        place = place * extent + index
    place = analyzer.canonical_simplify(place)
    step = analyzer.simplify(replaced(place, {var: var + 1}) - place)
    return int(step) if isinstance(step, tirx.IntImm) else None


def store_of(realize: SBlockRealize) -> BufferStore:
    """A block's store, with the loops' variables in place of the block's axes."""
    block = realize.block
    axes = [axis.var for axis in block.iter_vars]
    store = replaced(block.body, dict(zip(axes, realize.iter_values, strict=True)))
    assert isinstance(store, BufferStore)
    return store


def replaced(tree: Any, values: Mapping[tirx.Var, Expr]) -> Any:
    """An expression or a statement with other values in place of variables."""

    def of(var: tirx.Var) -> Expr:
        return next((new for old, new in values.items() if old.same_as(var)), var)

    return tvm_ffi.structural_map(tree, (tirx.Var, of))


def uses(expr: Expr, var: tirx.Var) -> bool:
    """Whether a variable is part of an expression."""

    def stop(found: tirx.Var) -> tvm_ffi.VisitInterrupt | None:
        return tvm_ffi.VisitInterrupt(None) if found.same_as(var) else None

    return tvm_ffi.structural_walk(expr, (tirx.Var, stop)) is not None
