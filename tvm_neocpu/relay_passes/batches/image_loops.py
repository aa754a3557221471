"""The rule for loops: every image of a batch is computed by itself, and like every other.

    for v0, v1 in (n, 64):  y[v0, v1] = exp(x[v0, v1])      each y[v0] needs x[v0] only
    for v1, r  in (64, n):  s[v1] += x[r, v1]               no: s carries no batch
    for v0, v1 in (n, 64):  y[v0, v1] = x[n - v0, v1]       no: not at v0
    y[v0] = x[v0] / n                                       no: n is a value
    for v0, r  in (n, n):   y[v0] += x[v0]                  no: n counts the additions
    for v0 in n:  where v0 < 8:  y[v0] = x[v0]              no: only eight images are computed

A tensor *carries* the batch if exactly one of its extents is ``n`` or a multiple of it. A function
is accepted if every block reads and writes each carrying buffer at one and the same spatial
iterator, in the extent that carries, if these extents and the iterator's are the same multiple of
``n``, and ``n`` stands nowhere else. One loop, of the same extent, walks that iterator, and nothing
else reads its counter: each image's iteration runs once, whatever a function written by hand says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferType

from tvm_neocpu.relay_passes.batches.places import carried_at, factor_of

# Calls that reach memory other than by an index.
_OPAQUE = ("packed", "extern", "address_of", "access_ptr")
_SPATIAL = int(tirx.IterVar.DataPar)


def why_mixed(func: tirx.PrimFunc, name: str) -> str | None:
    """The reason why a function mixes rows; ``None`` if it does not."""
    batches = _shape_variables(func)
    if len(batches) > 1:
        return f"{name} has several unknown extents"
    if not batches:
        return None
    loops = _Loops(batches[0])
    loops.read(func.body)
    return None if loops.are_independent(func) else f"{name} may mix the images"


def _shape_variables(func: tirx.PrimFunc) -> list[tirx.Var]:
    found: list[tirx.Var] = []

    def add(var: tirx.Var) -> None:
        if not isinstance(var.ty, BufferType) and not any(var.same_as(each) for each in found):
            found.append(var)

    for param in func.params:
        tvm_ffi.structural_walk(list(getattr(param, "shape", [param])), (tirx.Var, add))
    return found


class _Loops:
    """The blocks of one function, checked one by one in their loops."""

    def __init__(self, batch: tirx.Var) -> None:
        self._batch = batch
        self._accesses = 0
        self._independent = True
        self._factors: set[int | None] = set()

    def are_independent(self, func: tirx.PrimFunc) -> bool:
        """After reading: whether each block is right, and nothing happens outside of blocks."""
        everywhere = self._accesses == len(_Uses.of(func.body).accesses)
        return self._independent and everywhere and len(self._factors) <= 1

    def read(self, statement: tirx.Stmt, around: tuple[tirx.For, ...] = ()) -> None:
        """Read a statement that stands in these loops."""
        if isinstance(statement, tirx.SeqStmt):
            for each in statement.seq:
                self.read(each, around)
        elif isinstance(statement, tirx.For):
            self.read(statement.body, (*around, statement))
        elif isinstance(statement, SBlockRealize):
            self._read_block(statement, around)
        else:  # a condition, for instance, which may choose among the images
            self._independent = False

    def _read_block(self, realize: SBlockRealize, around: tuple[tirx.For, ...]) -> None:
        block = realize.block
        if len(block.iter_vars) == 0 and block.name_hint == "root":
            self._independent &= _is_true(realize.predicate)
            self.read(block.body, around)
            return
        uses = _Uses.of(block.body)
        if block.init is not None:
            uses = uses.and_those_of(block.init)
        # An index that is read from a tensor stands in what a block says that it touches, too.
        touched = [*block.reads, *block.writes]
        self._accesses += len(uses.accesses) + len(_Uses.of(touched).accesses)
        self._independent &= self._is_independent(block, uses)
        self._independent &= self._runs_once_an_image(realize, around)

    def _runs_once_an_image(self, realize: SBlockRealize, around: tuple[tirx.For, ...]) -> bool:
        """Whether the one loop over images, if any, walks the block's iterator of images."""
        of_images = [loop for loop in around if self._in([loop.min, loop.extent])]
        axes = [
            (axis.dom, value)
            for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
            if self._in(axis.dom)
        ]
        if self._in(realize.predicate) or len(of_images) != len(axes) or len(axes) > 1:
            return False
        if not axes:
            return True
        (loop,), ((walked, value),) = of_images, axes
        if not value.same_as(loop.loop_var) or not _is_same_range(loop, walked):
            return False
        inside = around[around.index(loop) + 1 :]
        counted = [realize, *([each.min, each.extent] for each in inside)]
        return sum(_Uses.of(code).count(loop.loop_var) for code in counted) == 1

    def _in(self, code: Any) -> bool:
        """Whether the number of images stands in it."""
        return _Uses.of(code).count(self._batch) > 0

    def _is_independent(self, block: SBlock, uses: _Uses) -> bool:
        if uses.opaque:
            return False
        indices, plain_stores = [], 0
        for access in uses.accesses:
            buffer = access.source if isinstance(access, TensorLoad) else access.buffer
            carried = carried_at(buffer.shape, self._batch)
            if carried is None:
                return False
            axis, factor = carried
            if factor:
                indices.append(access.indices[axis])
                self._factors.add(factor)
            elif isinstance(access, tirx.BufferStore):
                plain_stores += 1
        counted = [axis for axis in block.iter_vars if _Uses.of(axis.dom).count(self._batch)]
        if not indices:
            return not counted and uses.count(self._batch) == 0
        if len(counted) != 1 or counted[0].iter_type != _SPATIAL:
            return False
        rows = counted[0].var
        self._factors.add(factor_of(counted[0].dom.extent, self._batch))
        return (
            plain_stores == 0
            and all(rows.same_as(index) for index in indices)
            # Neither the number of images nor an image's place among them is a value.
            and uses.count(rows) == len(indices) == uses.count(self._batch)
        )


def _is_true(predicate: tirx.Expr) -> bool:
    return isinstance(predicate, tirx.IntImm) and bool(predicate)


def _is_same_range(loop: tirx.For, walked: tvm.ir.Range) -> bool:
    """Whether a plain loop walks that range from 0."""
    return (
        all(isinstance(each, tirx.IntImm) and not int(each) for each in (loop.min, walked.min))
        and loop.step is None
        and tvm_ffi.structural_equal(loop.extent, walked.extent)
    )


@dataclass(frozen=True)
class _Uses:
    """What a piece of code reads and writes, and every occurrence of a variable."""

    accesses: list[Any]
    variables: list[tirx.Var]
    opaque: bool

    @classmethod
    def of(cls, code: Any) -> _Uses:
        accesses: list[Any] = []
        variables: list[tirx.Var] = []
        calls: list[str] = []
        tvm_ffi.structural_walk(
            code,
            [
                ((TensorLoad, tirx.BufferStore), accesses.append),
                (tirx.Var, variables.append),
                (Call, lambda call: calls.append(str(getattr(call.op, "name", "")))),
            ],
        )
        opaque = any(word in name for name in calls for word in _OPAQUE)
        return cls(accesses, variables, opaque)

    def and_those_of(self, code: Any) -> _Uses:
        more = _Uses.of(code)
        return _Uses(
            self.accesses + more.accesses,
            self.variables + more.variables,
            self.opaque or more.opaque,
        )

    def count(self, var: tirx.Var) -> int:
        return sum(var.same_as(each) for each in self.variables)
