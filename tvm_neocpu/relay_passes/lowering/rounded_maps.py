"""Feature maps that are stored as bf16, because the one layer that reads them rounds them to it.

    y = relu(conv2d(x, V))             y = bf16(relu(conv2d(x, V)))
    z = conv2d(bf16(y), W)      ->     z = conv2d(y, W)

The same numbers are multiplied; the map takes half the bytes, and the layer that makes it rounds
whole vectors on their way to memory, in place of a copy in front of the layer that reads it.

Where products take a few cycles of a matrix unit, bytes decide. There the trunk of a residual
network is stored so, too, if bf16 was asked for without a bound on the error: a sum adds what it
reads, rounded, to what a layer makes.

    y = relu(conv2d(x, V) + t)         y = bf16(relu(conv2d(x, V) + fp32(t)))
    z = conv2d(bf16(y), W) + y  ->     z = conv2d(y, W) + fp32(y)

What only moves numbers, a border, a concat or a volume's images, moves them rounded where all that
read it round.

    z = conv2d(bf16(concat(x, y)), W)  ->  z = conv2d(concat(bf16(x), bf16(y)), W)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import tvm
from tvm import relax, te
from tvm.ir import Expr

from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS
from tvm_neocpu.relay_passes.ir.exprs import op_name, operands, over_variables, static_shape
from tvm_neocpu.relay_passes.ir.padding import PAD, filled_with
from tvm_neocpu.relay_passes.ir.regions import regions_of, relax_functions
from tvm_neocpu.relay_passes.layouts.depth_windows import is_stack, takes_images
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY, UNARY
from tvm_neocpu.relay_passes.layouts.moments import is_blocked_norm
from tvm_neocpu.relay_passes.operators.call_form import ELEMENTWISE, OUT_ELEMWISE_FUSABLE, CallForm
from tvm_neocpu.relay_passes.operators.table import read_call
from tvm_neocpu.topi.math.bf16_products import SUM_TYPE, rounded_bits
from tvm_neocpu.topi.math.half_precision import widened
from tvm_neocpu.topi.operator import Implementation

# What TVM fuses with the layer in front of it, and rounding with that.
EPILOGUES = UNARY | BINARY
SUM, CONCAT = "relax.add", "relax.concat"

# The implementation of a call of a form; ``None`` where no template takes it.
ImplementationOf = Callable[[relax.Call, CallForm, Workload], Implementation | None]


def rounded_maps(
    mod: tvm.IRModule,
    uses: Mapping[relax.Var, int],
    implementation: ImplementationOf,
    sums: bool,
) -> frozenset[relax.Var]:
    """The variables of a module with layouts that are to be stored as bf16.

    ``uses``: how often each of its variables is read. ``sums``: whether those that have several
    readers are among them, and those that are added to what a layer makes.
    """
    found: set[relax.Var] = set()
    for _, function in relax_functions(mod):
        for region in regions_of(function):
            made = {binding.var: binding.value for binding in region.bindings}
            found |= _rounded_in(made, uses, implementation, sums)
    return frozenset(found)


def _rounded_in(
    made: Mapping[relax.Var, relax.Expr],
    uses: Mapping[relax.Var, int],
    implementation: ImplementationOf,
    sums: bool,
) -> set[relax.Var]:
    """The variables of a region that are stored as bf16.

    A move takes part with all that it moves, or not at all.
    """
    moves = {var for var, value in made.items() if moved_by(value)}
    direct = _rounding_readers(made, uses, implementation, sums)
    while True:
        readers = direct.copy()
        for var in reversed(made):
            if var in moves and readers[var] == uses[var]:
                readers.update(moved_by(made[var]))
        kept: set[relax.Var] = set()
        for var, value in made.items():
            count = readers[var]
            if not count or count != uses[var] or (count > 1 and not sums):
                continue
            parts = moved_by(value)
            if kept.issuperset(parts) if parts else _is_made_by_layer(var, made, uses):
                kept.add(var)
        if moves <= kept:
            return kept
        moves &= kept


def _rounding_readers(
    made: Mapping[relax.Var, relax.Expr],
    uses: Mapping[relax.Var, int],
    implementation: ImplementationOf,
    sums: bool,
) -> Counter[relax.Var]:
    """How many layers round each map, and, with ``sums``, how many sums may read it rounded."""
    places = {var: place for place, var in enumerate(made)}
    readers: Counter[relax.Var] = Counter()
    for value in made.values():
        data = _rounded_by(value, implementation)
        readers.update([data] if data in made else [])
        readers.update(_added(value, made, uses, places) if sums else ())
    return readers


def moved_by(value: relax.Expr | None) -> tuple[relax.Var, ...]:
    """The maps that a border (of zeros, or repeated pixels) or a concat moves, or whose images are
    put side by side; else none.
    """
    if takes_images(value) or is_stack(value):
        data = value.args[0]
        return (data,) if isinstance(data, relax.Var) else ()
    if op_name(value) not in (PAD, CONCAT):
        return ()
    if filled_with(value):
        return ()
    (data,) = operands(value)
    moved = tuple(data) if isinstance(data, relax.Tuple) else (data,)
    return moved if all(isinstance(each, relax.Var) for each in moved) else ()


def _added(
    value: relax.Expr,
    made: Mapping[relax.Var, relax.Expr],
    uses: Mapping[relax.Var, int],
    places: Mapping[relax.Var, int],
) -> tuple[relax.Var, ...]:
    """The map that a sum adds to what a layer makes later, whose epilogue the sum becomes."""
    if op_name(value) != SUM:
        return ()
    first, last = sorted(value.args, key=lambda each: places.get(each, -1))
    same = first in made and last in made and static_shape(first) == static_shape(last)
    if not same or uses[last] > 1 or not _is_made_by_layer(last, made, uses):
        return ()
    return (first,)


@dataclass
class StoredMaps:
    """The bits of maps that are stored as bf16, made where the first reader stands.

    ``uses``: how often variables are read; counts for the bits are added to it.
    """

    maps: frozenset[relax.Var]
    uses: dict[relax.Var, int]
    bits: dict[relax.Var, relax.Var] = field(default_factory=dict)

    def read(self, builder: relax.BlockBuilder, data: relax.Var) -> relax.Var:
        """The map's bits, rounded to nearest: a call that the layer in front takes along."""
        if data not in self.bits:
            value = builder.lookup_binding(data)
            moved = {each: self.read(builder, each) for each in moved_by(value)}
            if moved:
                bits = builder.emit(over_variables(value, moved.__getitem__))
            else:
                bits = _elementwise(builder, data, rounded_bits, "bf16")
            self.bits[data], self.uses[bits] = bits, self.uses[data]
        return self.bits[data]

    def add(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        """A sum that reads such maps widened: a call that the sum takes along."""
        if not any(each in self.maps for each in call.args):
            return call
        return relax.op.add(
            *(
                _elementwise(builder, self.read(builder, each), _widened, "fp32")
                if each in self.maps
                else each
                for each in call.args
            )
        )


def _widened(bits: Expr) -> Expr:
    return widened(bits, SUM_TYPE)


def _elementwise(
    builder: relax.BlockBuilder, data: relax.Expr, of: Callable[[Expr], Expr], name: str
) -> relax.Var:
    def compute(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *at: of(tensor(*at)), name=f"T_{name}")

    attrs = {"op_pattern": ELEMENTWISE}
    return builder.emit(
        builder.call_te(compute, data, primfunc_name_hint=name, primfunc_attrs=attrs)
    )


def over_stored(workload: Workload) -> Workload:
    """The workload of the layer that reads such a map."""
    changed: Workload = replace(workload, types=BF16_MAPS)  # type: ignore[type-var]
    return changed


def as_planned(workload: Workload) -> Workload:
    """The layer that the plan knows: it does not name maps that are stored so."""
    if workload.types != BF16_MAPS:
        return workload
    changed: Workload = replace(workload, types=BF16_WEIGHTS)  # type: ignore[type-var]
    return changed


def _rounded_by(value: relax.Expr, implementation: ImplementationOf) -> relax.Expr | None:
    """The map that a layer rounds before it multiplies, and could read rounded."""
    found = read_call(value)
    if found is None or found[1].types != BF16_WEIGHTS:
        return None
    form, workload = found
    entry = implementation(value, form, workload)
    if entry is None or BF16_MAPS not in entry.types or not form.layouts(value)[0].is_blocked:
        return None
    return form.tensors(value)[0]


def _is_made_by_layer(
    data: relax.Var, made: Mapping[relax.Var, relax.Expr], uses: Mapping[relax.Var, int]
) -> bool:
    """Whether a layer ends in this map, with nothing but its epilogue in between."""
    reads: dict[relax.Var, int] = {data: 1}
    front, layers = [data], []
    while front:
        var = front.pop()
        value = made.get(var)
        if _is_layer(value):
            layers.append(var)
        elif op_name(value) in EPILOGUES:
            for operand in _variables(value):
                if operand not in reads:
                    front.append(operand)
                reads[operand] = reads.get(operand, 0) + 1
    return any(uses[layer] == reads[layer] for layer in layers)


def _is_layer(value: relax.Expr | None) -> bool:
    """Whether a value's function takes rounding along: a template's, a norm's of blocks."""
    found = None if value is None else read_call(value)
    if found is not None:
        return bool(found[0].pattern == OUT_ELEMWISE_FUSABLE)
    return is_blocked_norm(value)


def _variables(call: relax.Expr) -> Iterator[relax.Var]:
    return (operand for operand in operands(call) if isinstance(operand, relax.Var))
