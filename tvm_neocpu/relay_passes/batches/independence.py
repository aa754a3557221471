"""The proof that no image of a batch depends on another, nor on how many there are.

The module is legalised first, so that the proof reads loops and needs no table of operators. A
tensor *carries* the batch if exactly one of its extents is ``n`` or a multiple of it::

    for v0, v1 in (n, 64):  y[v0, v1] = exp(x[v0, v1])      each y[v0] needs x[v0] only
    for v1, r  in (64, n):  s[v1] += x[r, v1]               no: s carries no batch
    for v0, v1 in (n, 64):  y[v0, v1] = x[n - v0, v1]       no: not at v0
    y[v0] = x[v0] / n                                       no: n is a value

A function is accepted if every block reads and writes each carrying buffer at one and the same
spatial iterator, in the extent that carries, and if ``n`` stands in extents only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, GlobalVar, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferType

from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name
from tvm_neocpu.relay_passes.ir.regions import relax_functions
from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of

# Relax says of these that the elements keep their order, whatever the loops look like.
_REORDERED_NEVER = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")
# Calls that reach memory other than by an index.
_OPAQUE = ("packed", "extern", "address_of", "access_ptr")
_SPATIAL = int(tirx.IterVar.DataPar)


def open_batch(mod: tvm.IRModule) -> tirx.Var | None:
    """The variable that is the first extent of every input of ``main``, and their only open one."""
    mains = [func for name, func in relax_functions(mod) if name.name_hint == "main"]
    shapes = (
        [getattr(getattr(v.ty, "shape", None), "values", None) for v in mains[0].params]
        if (mains)
        else []
    )
    if not shapes or any(not shape for shape in shapes):
        return None
    batch = shapes[0][0]
    if not isinstance(batch, tirx.Var):
        return None
    return batch if all(_leads(var.ty, batch) for var in mains[0].params) else None


def open_extents_of(ty: Any) -> list[tirx.Var]:
    """The variables in a tensor's shape, or in those of a tuple's tensors; each once."""
    found: list[tirx.Var] = []

    def add(var: tirx.Var) -> None:
        if not any(var.same_as(each) for each in found):
            found.append(var)

    for tensor in tensors_of(ty):
        values = getattr(getattr(tensor, "shape", None), "values", None) or ()
        tvm_ffi.structural_walk(list(values), (tirx.Var, add))
    return found


def why_dependent(mod: tvm.IRModule, batch: tirx.Var) -> str | None:
    """What keeps the images of ``main`` from being computed one by one; ``None`` if nothing does.

    ``batch`` is the first extent of every input. The text names the first operation in the way.
    """
    if len(relax_functions(mod)) != 1 or len(mod["main"].body.blocks) > 1:
        return "the network has branches, casts or several functions"
    main = mod["main"]
    if not all(_leads(var.ty, batch) for var in main.params):
        return "an input has no batch as its first extent"
    if not all(_leads(ty, batch) for ty in tensors_of(main.ret_ty)):
        return "an output has no batch as its first extent"
    if isinstance(main.ret_ty, relax.TupleType) and any(
        isinstance(field, relax.TupleType) for field in main.ret_ty.fields
    ):
        return "the result is a tuple of tuples"
    loops = _legalized(mod)
    blocks = loops["main"].body.blocks
    for binding in blocks[0].bindings if blocks else ():
        reason = _why_binding(loops, binding, batch)
        if reason is not None:
            return reason
    return None


def _legalized(mod: tvm.IRModule) -> tvm.IRModule:
    return relax.transform.LegalizeOps(skip_ops=list(_REORDERED_NEVER), enable_warning=False)(mod)


def _why_binding(mod: tvm.IRModule, binding: relax.Binding, batch: tirx.Var) -> str | None:
    value = binding.value if isinstance(binding, relax.VarBinding) else None
    if isinstance(value, relax.Var | relax.Tuple | relax.TupleGetItem | GenericConst):
        return None
    name = op_name(value)
    if name in _REORDERED_NEVER:
        same = place_of(value.args[0].ty, batch) == place_of(value.ty, batch)
        return None if same else f"{name.removeprefix('relax.')} mixes the images"
    if name != CALL_TIR or not isinstance(value.args[0], GlobalVar):
        return f"{name or type(value).__name__} is not known in loops"
    if len(value.args) > 2:
        return f"{value.args[0].name_hint} takes the batch as a value"
    # The loops of a tensor (n * 49, 64) take n itself as an argument.
    tensors = [arg for arg in value.args[1].fields if not batch.same_as(arg)]
    types = [arg.ty for arg in tensors] + list(tensors_of(value.ty))
    if any(place_of(ty, batch) is None for ty in types):
        return f"{value.args[0].name_hint} has tensors whose batch is not one extent"
    return _why_function(mod[value.args[0]], value.args[0].name_hint)


@dataclass(frozen=True)
class Place:
    """Where a tensor has the batch: elements before it and elements of one image behind it.

    Both are 0 for a tensor without a batch.
    """

    before: int = 0
    behind: int = 0


def _leads(ty: Any, batch: tirx.Var) -> bool:
    """Whether the batch itself is the first extent, and in no other."""
    place = place_of(ty, batch)
    return bool(place and place.before == 1 and ty.shape.values[0].same_as(batch))


def place_of(ty: Any, batch: tirx.Var) -> Place | None:
    """Where a tensor of that type has the batch.

    ``None`` where the batch is in several extents, or not a factor of one.
    """
    values = getattr(getattr(ty, "shape", None), "values", None)
    if values is None:
        return None
    factors = [_factor(extent, batch) for extent in values]
    if None in factors:
        return None
    carrying = [at for at, factor in enumerate(factors) if factor]
    if not carrying:
        return Place()
    if len(carrying) > 1:
        return None
    (at,) = carrying
    behind = prod(int(extent) for extent in values[at + 1 :])
    return Place(prod(int(extent) for extent in values[:at]), int(factors[at] or 0) * behind)


def _factor(extent: Any, batch: tirx.Var) -> int | None:
    """0 for a number, k for ``batch * k``, ``None`` for anything else."""
    if isinstance(extent, tirx.IntImm):
        return 0
    if isinstance(extent, tirx.Var):
        return 1 if extent.same_as(batch) else None
    if isinstance(extent, tirx.Mul):
        sides = (extent.a, extent.b)
        numbers = [int(side) for side in sides if isinstance(side, tirx.IntImm)]
        if len(numbers) == 1 and any(_factor(side, batch) == 1 for side in sides):
            return numbers[0] if numbers[0] > 0 else None
    return None


def _why_function(func: tirx.PrimFunc, name: str) -> str | None:
    """The reason why a function mixes rows; ``None`` if it does not."""
    batches = _shape_variables(func)
    if len(batches) > 1:
        return f"{name} has several unknown extents"
    if not batches:
        return None
    loops = _Loops(batches[0])
    tvm_ffi.structural_walk(func.body, (SBlock, loops.add))
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
    """The blocks of one function, checked one by one as a walk finds them."""

    def __init__(self, batch: tirx.Var) -> None:
        self._batch = batch
        self._accesses = 0
        self._independent = True

    def are_independent(self, func: tirx.PrimFunc) -> bool:
        """After the walk: whether each block is right, and nothing happens outside of blocks."""
        return self._independent and self._accesses == len(_Uses.of(func.body).accesses)

    def add(self, block: SBlock) -> None:
        if len(block.iter_vars) == 0 and block.name_hint == "root":
            return
        uses = _Uses.of(block.body)
        if block.init is not None:
            uses = uses.and_those_of(block.init)
        self._accesses += len(uses.accesses)
        self._independent &= self._is_independent(block, uses)

    def _is_independent(self, block: SBlock, uses: _Uses) -> bool:
        if uses.opaque:
            return False
        indices, plain_stores = [], 0
        for access in uses.accesses:
            buffer = access.source if isinstance(access, TensorLoad) else access.buffer
            place = _carried_at(buffer.shape, self._batch)
            if place is None:
                return False
            if place >= 0:
                indices.append(access.indices[place])
            elif isinstance(access, tirx.BufferStore):
                plain_stores += 1
        if not indices:
            return uses.count(self._batch) == 0
        rows = indices[0]
        spatial = [axis.var for axis in block.iter_vars if axis.iter_type == _SPATIAL]
        return (
            plain_stores == 0
            and any(rows.same_as(var) for var in spatial)
            and all(rows.same_as(index) for index in indices)
            # Neither the number of images nor an image's place among them is a value.
            and uses.count(rows) == len(indices) == uses.count(self._batch)
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


def _carried_at(shape: Any, batch: tirx.Var) -> int | None:
    """The extent of a buffer that carries the batch, -1 if none does, ``None`` if it is unclear."""
    factors = [_factor(extent, batch) for extent in shape]
    if None in factors or sum(map(bool, factors)) > 1:
        return None
    return next((at for at, factor in enumerate(factors) if factor), -1)
