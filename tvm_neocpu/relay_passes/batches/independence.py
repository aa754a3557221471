"""The proof that no image of a batch depends on another, nor on how many there are.

The module is legalised first, so that the proof reads loops (:mod:`.image_loops`) and needs a rule
for no operator but those that are never legalised, reshapes and recurrent layers, and for borders,
whose loops read each axis at a formula. It follows where each tensor has the batch
(:mod:`.places`), which only a reshape can mix up::

    (25, n, 64) -> (n * 25, 64) -> (25, n, 64)      rows of steps, and back
    (n, 25, 64) -> (n * 25, 64) -> (25, n, 64)      no: images would become steps
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst, GlobalVar

from tvm_neocpu.relay_passes.batches.image_loops import why_mixed
from tvm_neocpu.relay_passes.batches.places import (
    Place,
    Split,
    carried,
    fits,
    place_of,
    placed,
    split_of,
)
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, ints, op_name, operands
from tvm_neocpu.relay_passes.ir.open_batch import has_batch
from tvm_neocpu.relay_passes.ir.padding import PAD
from tvm_neocpu.relay_passes.ir.regions import relax_functions
from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of
from tvm_neocpu.relay_passes.operators.new.recurrence import RECURRENCE, batch_axes

# Relax says of these that the elements keep their order, whatever the loops look like.
_REORDERED_NEVER = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")


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

    ``batch`` is one extent of every input. The text names the first operation in the way.
    """
    if len(relax_functions(mod)) != 1 or len(mod["main"].body.blocks) > 1:
        return "the network has branches, casts or several functions"
    main = mod["main"]
    if not all(has_batch(var.ty, batch) for var in main.params):
        return "an input has no batch as an extent"
    if not all(has_batch(ty, batch) for ty in tensors_of(main.ret_ty)):
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
    results = _flat(proof.places(loops["main"].body.body))
    shown = [place_of(ty, batch) for ty in tensors_of(loops["main"].ret_ty)]
    return None if results == shown else "an output's batch stands elsewhere than its shape says"


def _legalized(mod: tvm.IRModule) -> tvm.IRModule:
    left = [*_REORDERED_NEVER, PAD, RECURRENCE.define()]
    return relax.transform.LegalizeOps(skip_ops=left, enable_warning=False)(mod)


# The place of a tensor, or those of a tuple's fields.
Places = Place | tuple["Places", ...]


def _flat(places: Places) -> list[Place]:
    """The places of all tensors, tuples flattened."""
    return [places] if isinstance(places, Place) else [each for p in places for each in _flat(p)]


class _Proof:
    """The bindings so far: where each tensor has the batch."""

    def __init__(self, mod: tvm.IRModule, batch: tirx.Var) -> None:
        self._mod = mod
        self._batch = batch
        self._known: dict[relax.Var, Places] = {}

    def add_input(self, var: relax.Var) -> None:
        """An input, of which one extent is the batch."""
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
            (place,) = _flat(self.places(value.args[0]))
            kept = fits(value.ty, place, self._batch)
            return place if kept else f"{name.removeprefix('relax.')} mixes the images"
        if name == PAD:
            return self._padded(value)
        if name == RECURRENCE.name:
            return self._recurrence(value)
        if name != CALL_TIR or not isinstance(value.args[0], GlobalVar):
            return f"{name or type(value).__name__} is not known in loops"
        return self._loops(value, str(value.args[0].name_hint))

    def _padded(self, call: relax.Call) -> Places | str:
        """A border around each image: none along the axis that is made of images."""
        (data,) = operands(call)
        (place,) = _flat(self.places(data))
        if place == Place():
            return place
        split, widths = split_of(data.ty, place, self._batch), ints(call.attrs.pad_width)
        if split is None or any(widths[2 * split.axis : 2 * split.axis + 2]):
            return "pad may mix the images"
        return placed(call.ty, split)

    def _loops(self, call: relax.Call, name: str) -> Places | str:
        """A function whose blocks read and write all images at one iterator."""
        if len(call.args) > 2:
            return f"{name} takes the batch as a value"
        # The loops of a tensor (n * 49, 64) take n itself as an argument.
        tensors = [arg for arg in call.args[1].fields if not self._batch.same_as(arg)]
        given, types = _flat(self.places(relax.Tuple(tensors))), tensors_of(call.ty)
        splits = {
            split_of(arg.ty, place, self._batch)
            for arg, place in zip(tensors, given, strict=True)
            if place != Place()
        }
        # All carrying axes are walked by one iterator, so they are made of images alike.
        ways = {split and (split.outside, split.inside) for split in splits}
        if None in ways or len(ways) > 1 or any(place_of(ty, self._batch) is None for ty in types):
            return f"{name} has tensors whose batch is not one extent"
        reason = why_mixed(self._mod[call.args[0]], name)
        if reason is not None:
            return reason
        (way,) = ways or {None}
        made = tuple(self._made(ty, way) for ty in types)
        return made if isinstance(call.ty, relax.TupleType) else made[0]

    def _made(self, ty: Any, way: tuple[int, int] | None) -> Place:
        """Where a function's result has the batch; its axes are made of images as ``way`` says."""
        axis, factor = carried(ty, self._batch) or (-1, 0)
        if not factor:
            return Place()
        # Without an argument that carries the batch all images are equal.
        return placed(ty, Split(axis, *(way or (1, factor))))

    def _recurrence(self, call: relax.Call) -> Places | str:
        axes = batch_axes(call)
        given = [(arg.ty, place) for arg in call.args for place in _flat(self.places(arg))]
        read = [split_of(ty, place, self._batch) for ty, place in given]
        if axes is None or any(
            place != Place() and split != (None if axis is None else Split(axis, 1, 1))
            for (_, place), split, axis in zip(given, read, axes[0], strict=True)
        ):
            return f"{call.attrs['kind']} mixes the images"
        fields = zip(tensors_of(call.ty), axes[1], strict=True)
        return tuple(placed(ty, Split(axis, 1, 1)) for ty, axis in fields)
