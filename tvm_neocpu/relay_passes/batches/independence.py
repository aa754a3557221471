"""The proof that no image of a batch depends on another, nor on how many there are.

The module is legalised first, so that the proof reads loops and needs no table of operators. A
tensor *carries* the batch if exactly one of its extents is ``n`` or a multiple of it::

    for v0, v1 in (n, 64):  y[v0, v1] = exp(x[v0, v1])      each y[v0] needs x[v0] only
    for v1, r  in (64, n):  s[v1] += x[r, v1]               no: s carries no batch
    for v0, v1 in (n, 64):  y[v0, v1] = x[n - v0, v1]       no: not at v0
    y[v0] = x[v0] / n                                       no: n is a value

A function is accepted if every block reads and writes each carrying buffer at one and the same
spatial iterator, in the extent that carries, if these extents are the same multiple of ``n`` and
``n`` stands in extents only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, GlobalVar, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferType

from tvm_neocpu.relay_passes.batches.places import (
    Place,
    Split,
    carried_at,
    fits,
    place_of,
    placed,
    split_of,
)
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name
from tvm_neocpu.relay_passes.ir.regions import relax_functions
from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of
from tvm_neocpu.relay_passes.operators.recurrence import RECURRENCE, batch_axes

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
    if not all(_has_batch(ty, batch) for ty in tensors_of(main.ret_ty)):
        return "an output has no batch as an extent"
    if isinstance(main.ret_ty, relax.TupleType) and any(
        isinstance(field, relax.TupleType) for field in main.ret_ty.fields
    ):
        return "the result is a tuple of tuples"
    loops = _legalized(mod)
    proof = _Proof(loops, batch)
    for param in loops["main"].params:
        proof.add_input(param)
    blocks = loops["main"].body.blocks
    for binding in blocks[0].bindings if blocks else ():
        reason = proof.add(binding)
        if reason is not None:
            return reason
    results = flat(proof.places(loops["main"].body.body))
    shown = [place_of(ty, batch) for ty in tensors_of(loops["main"].ret_ty)]
    return None if results == shown else "an output's batch stands elsewhere than its shape says"


def _legalized(mod: tvm.IRModule) -> tvm.IRModule:
    left = [*_REORDERED_NEVER, RECURRENCE.define()]
    return relax.transform.LegalizeOps(skip_ops=left, enable_warning=False)(mod)


# The place of a tensor, or those of a tuple's fields.
Places = Place | tuple["Places", ...]


def flat(places: Places) -> list[Place]:
    """The places of all tensors, tuples flattened."""
    return [places] if isinstance(places, Place) else [each for p in places for each in flat(p)]


class _Proof:
    """The bindings so far: where each tensor has the batch."""

    def __init__(self, mod: tvm.IRModule, batch: tirx.Var) -> None:
        self._mod = mod
        self._batch = batch
        self._known: dict[relax.Var, Places] = {}

    def add_input(self, var: relax.Var) -> None:
        """An input, whose first extent is the batch."""
        self._known[var] = place_of(var.ty, self._batch) or Place()

    def add(self, binding: relax.Binding) -> str | None:
        """What in a binding keeps the images from being independent; ``None`` if nothing does."""
        value = binding.value if isinstance(binding, relax.VarBinding) else None
        found = self._found(value)
        if isinstance(found, str):
            return found
        self._known[binding.var] = found
        return None

    def places(self, value: relax.Expr) -> Places:
        """Where a tensor has the batch, or each of a tuple's."""
        if isinstance(value, relax.Tuple):
            return tuple(map(self.places, value.fields))
        return self._known[value] if isinstance(value, relax.Var) else Place()

    def _found(self, value: relax.Expr | None) -> Places | str:
        if isinstance(value, relax.Var | relax.Tuple | GenericConst):
            return self.places(value)
        if isinstance(value, relax.TupleGetItem):
            whole = self.places(value.tuple_value)
            assert isinstance(whole, tuple)
            return whole[int(value.index)]
        name = op_name(value)
        if name in _REORDERED_NEVER:
            (place,) = flat(self.places(value.args[0]))
            kept = fits(value.ty, place, self._batch)
            return place if kept else f"{name.removeprefix('relax.')} mixes the images"
        if name == RECURRENCE.name:
            return self._recurrence(value)
        if name != CALL_TIR or not isinstance(value.args[0], GlobalVar):
            return f"{name or type(value).__name__} is not known in loops"
        return self._loops(value, str(value.args[0].name_hint))

    def _loops(self, call: relax.Call, name: str) -> Places | str:
        """A function whose blocks read and write all images at one iterator."""
        if len(call.args) > 2:
            return f"{name} takes the batch as a value"
        # The loops of a tensor (n * 49, 64) take n itself as an argument.
        tensors = [arg for arg in call.args[1].fields if not self._batch.same_as(arg)]
        given, types = flat(self.places(relax.Tuple(tensors))), tensors_of(call.ty)
        splits = {
            split_of(arg.ty, place, self._batch)
            for arg, place in zip(tensors, given, strict=True)
            if place != Place()
        }
        # All carrying axes are walked by one iterator, so they are made of images alike.
        ways = {split and (split.outside, split.inside) for split in splits}
        if None in ways or len(ways) > 1 or any(place_of(ty, self._batch) is None for ty in types):
            return f"{name} has tensors whose batch is not one extent"
        reason = _why_function(self._mod[call.args[0]], name)
        if reason is not None:
            return reason
        (way,) = ways or {None}
        made = tuple(self._made(ty, way) for ty in types)
        return made if isinstance(call.ty, relax.TupleType) else made[0]

    def _made(self, ty: Any, way: tuple[int, int] | None) -> Place:
        """Where a function's result has the batch; its axes are made of images as ``way`` says."""
        axis, factor = carried_at(ty.shape.values, self._batch) or (-1, 0)
        if not factor:
            return Place()
        # Without an argument that carries the batch all images are equal.
        return placed(ty, Split(axis, *(way or (1, factor))))

    def _recurrence(self, call: relax.Call) -> Places | str:
        axes = batch_axes(call)
        given = [(arg.ty, place) for arg in call.args for place in flat(self.places(arg))]
        read = [split_of(ty, place, self._batch) for ty, place in given]
        if axes is None or any(
            place != Place() and split != (None if axis is None else Split(axis, 1, 1))
            for (_, place), split, axis in zip(given, read, axes[0], strict=True)
        ):
            return f"{call.attrs['kind']} mixes the images"
        fields = zip(tensors_of(call.ty), axes[1], strict=True)
        return tuple(placed(ty, Split(axis, 1, 1)) for ty, axis in fields)


def _leads(ty: Any, batch: tirx.Var) -> bool:
    """Whether the batch itself is the first extent, and in no other."""
    place = place_of(ty, batch)
    return bool(place and place.before == 1 and ty.shape.values[0].same_as(batch))


def _has_batch(ty: Any, batch: tirx.Var) -> bool:
    """Whether the batch itself is one extent, and in no other."""
    values = getattr(getattr(ty, "shape", None), "values", None)
    return bool(values) and (carried_at(values, batch) or (-1, 0))[1] == 1


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
        self._factors: set[int] = set()

    def are_independent(self, func: tirx.PrimFunc) -> bool:
        """After the walk: whether each block is right, and nothing happens outside of blocks."""
        everywhere = self._accesses == len(_Uses.of(func.body).accesses)
        return self._independent and everywhere and len(self._factors) <= 1

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
            carried = carried_at(buffer.shape, self._batch)
            if carried is None:
                return False
            axis, factor = carried
            if factor:
                indices.append(access.indices[axis])
                self._factors.add(factor)
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
