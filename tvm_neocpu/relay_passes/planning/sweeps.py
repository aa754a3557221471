"""Which operations of a folded module will be calls of their own, without a template.

Fusion comes after the plan, but it can be told before: an operation on each element joins whatever
computes its input alone, copies join copies, and a template reads through a concat and a scale::

    conv2d -> add -> relu          no sweep: the convolution's epilogue
    x * sigmoid(x)                 no sweep: all readers of x meet again in one operation
    conv2d + dequantize(x)         no sweep: the epilogue does it, whoever else reads x
    relu -> max_pool2d             a sweep: the pool
    concat -> multiply -> conv2d   a sweep, unless the convolution's template reads through it

What a plan changes here is not known yet: a transform between a convolution and its epilogue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import RowWindow, Shape4, Sweep, SweepKind
from tvm_neocpu.relay_passes.ir.exprs import (
    dtype_of,
    op_name,
    operands,
    static_shape,
    static_shape4,
    variables,
)
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.layouts.elementwise import RULES as ELEMENTWISE
from tvm_neocpu.relay_passes.layouts.flatten_concats import concat_axis
from tvm_neocpu.relay_passes.layouts.flow import FlowKind, is_feature_map
from tvm_neocpu.relay_passes.layouts.moves import RULES as MOVES
from tvm_neocpu.relay_passes.layouts.table import decided_flow
from tvm_neocpu.relay_passes.layouts.windows import POOLS, REDUCTIONS
from tvm_neocpu.relay_passes.layouts.windows import RULES as WINDOWS
from tvm_neocpu.relay_passes.lowering.read_prologue import read_prologue

# What reads windows, and what reads whole images; other operations of the tables copy.
_POOLS = frozenset(f"relax.nn.{name}" for name in (*POOLS, "adaptive_avg_pool2d"))
_REDUCTIONS = frozenset(f"relax.{name}" for name in REDUCTIONS)
# Operations on each element between several readers of a tensor and where they meet: h-swish has 4.
LONGEST = 16
_VIEWS = frozenset(("relax.reshape",))


@dataclass
class Sweeps:
    """``own`` are the sweeps that end in a variable; ``read`` those that a convolution may read
    through, by its variable."""

    own: dict[relax.Var, Sweep] = field(default_factory=dict)
    read: dict[relax.Var, tuple[Sweep, ...]] = field(default_factory=dict)


def sweeps_of(region: Region, cpu: Cpu) -> Sweeps:
    """The sweeps of one region of a folded module whose feature maps are plain NCHW."""
    concats = _flat_concats(region)
    uses = _flat_uses(region, concats)
    walk = _Walk(cpu, uses, {b.var: b.value for b in region.bindings}, concats)
    for binding in region.bindings:
        walk.visit(binding.var, binding.value)
    return walk.found


@dataclass
class _Walk:
    """``open`` has the variables whose call takes an operation on each element along: True for
    those that only copy, into which a later copy merges too. ``joined`` says of operations on each
    element whose call takes them along though that has several readers. ``reread`` has operations
    on each element of what others read, too: whose result such an operation reads does them."""

    cpu: Cpu
    uses: Counter[relax.Var]
    definitions: Mapping[relax.Var, relax.Expr]
    concats: Mapping[relax.Var, Sequence[relax.Expr]]
    found: Sweeps = field(default_factory=Sweeps)
    open: dict[relax.Var, bool] = field(default_factory=dict)
    joined: dict[relax.Var, relax.Var] = field(default_factory=dict)
    reread: set[relax.Var] = field(default_factory=set)

    @cached_property
    def order(self) -> dict[relax.Var, int]:
        """Variables by their place in the program."""
        return {var: place for place, var in enumerate(self.definitions)}

    @cached_property
    def readers(self) -> dict[relax.Var, list[relax.Var]]:
        found: dict[relax.Var, list[relax.Var]] = {}
        for var, value in self.definitions.items():
            for read in variables(value):
                found.setdefault(read, []).append(var)
        return found

    def visit(self, var: relax.Var, value: relax.Expr) -> None:
        flow, name = decided_flow(value, self.cpu), op_name(value)
        if flow.kind is FlowKind.WORKLOAD:
            if flow.operands:
                self._read_through(var, flow.operands[0])
            self._open(var, False)
        elif flow.kind is FlowKind.BOUNDARY or name in _VIEWS or not self.uses[var]:
            return
        elif name in _POOLS or name in _REDUCTIONS:
            self._add(var, value)
            self._open(var, False)
        elif name in ELEMENTWISE:
            self._elementwise(var, value)
        elif name in MOVES or name in WINDOWS:
            self._copy(var, value)

    def _elementwise(self, var: relax.Var, value: relax.Expr) -> None:
        """An epilogue of what computes one of its operands for it alone, else a sweep."""
        if var in self.joined and static_shape(self.joined[var]) == static_shape(var):
            self._take_along(var, self.joined[var])
            return
        shape = static_shape(var)
        alone = [
            each
            for each in operands(value)
            if static_shape(each) == shape and (var in self.joined or self._is_alone(each))
        ]
        if not alone:
            self._copy(var, value)
            if var in self.found.own:
                self.reread.add(var)
            return
        source = next((each for each in alone if each not in self.reread), alone[0])
        for other in self.reread.intersection(alone) - {source}:
            self._merge(source, self.found.own.pop(other))
        self._take_along(var, source)

    def _merge(self, source: relax.Var, other: Sweep) -> None:
        """An operation on each element reads what ``other`` reads, beside ``source``."""
        if source in self.reread:
            own = self.found.own[source]
            self.found.own[source] = replace(own, inputs=(*own.inputs, *other.inputs))

    def _take_along(self, var: relax.Var, source: relax.Var) -> None:
        if source in self.found.own:
            self.found.own[var] = self.found.own.pop(source)
        if source in self.reread:
            self.reread.add(var)
        self._open(var, self.open[source])

    def _open(self, var: relax.Var, copies: bool) -> None:
        """``var`` takes operations along: one reader, or several that meet again."""
        self.open[var] = copies
        if self.uses[var] < 2 or var in self.joined:
            return
        for reader in self._until_they_meet(var):
            self.joined[reader] = var

    def _until_they_meet(self, var: relax.Var) -> list[relax.Var]:
        """Operations on each element from ``var`` to the one in which all paths from it meet."""
        front, passed = {var}, []
        while len(passed) < LONGEST:
            first = min(front, key=lambda one: self.order[one])
            if front == {first} and first is not var:
                return [*passed, first]
            readers = self.readers.get(first, [])
            if len(readers) < self.uses[first] or not all(map(self._like(var), readers)):
                return []
            passed += [first] if first is not var else []
            front = front - {first} | set(readers)
        return []

    def _like(self, var: relax.Var) -> Callable[[relax.Var], bool]:
        shape = static_shape(var)
        return lambda reader: (
            op_name(self.definitions[reader]) in ELEMENTWISE and static_shape(reader) == shape
        )

    def _copy(self, var: relax.Var, value: relax.Expr) -> None:
        """Copies that nothing else reads are merged into this one, which reads what they read."""
        inputs: list[Shape4] = []
        for operand in self._parts(var, value):
            if self._is_alone(operand) and self.open[operand] and operand in self.found.own:
                inputs.extend(self.found.own.pop(operand).inputs)
            elif is_feature_map(operand):
                inputs.append(static_shape4(operand))
        self._add(var, value, inputs)
        self._open(var, True)

    def _parts(self, var: relax.Var, value: relax.Expr) -> Sequence[relax.Expr]:
        """The tensors that a call reads, those of a concat's concats too."""
        if var in self.concats:
            return self.concats[var]
        return [part for part in operands(value) if isinstance(part, relax.Var)]

    def _read_through(self, var: relax.Var, data: relax.Expr) -> None:
        """The sweeps in front of a convolution that its template may compute as it reads."""
        if read_prologue(data, self.definitions.get, self.uses) is None:
            return
        chain = []
        while isinstance(data, relax.Var) and self.uses.get(data) == 1:
            if data in self.found.own:
                chain.append(self.found.own.pop(data))
                break
            value = self.definitions.get(data)
            if value is None:
                break
            data = next(iter(variables(value)), data)
        self.found.read[var] = tuple(chain)

    def _is_alone(self, operand: relax.Expr) -> bool:
        """Whether a call makes it that takes its only reader along."""
        return isinstance(operand, relax.Var) and operand in self.open and self.uses[operand] == 1

    def _add(self, var: relax.Var, value: relax.Expr, inputs: list[Shape4] | None = None) -> None:
        name, result = op_name(value), static_shape4(var)
        read = inputs or [static_shape4(part) for part in variables(value) if is_feature_map(part)]
        if not read:
            return
        kind, taps, rows = SweepKind.MOVE, 1, None
        if name in _POOLS:
            window = getattr(value.attrs, "pool_size", None)
            kind = SweepKind.POOL
            taps = prod(map(int, window)) if window else prod(read[0]) // prod(result)
            rows = _row_window(value) if window else None
        elif name in _REDUCTIONS:
            kind, taps = SweepKind.REDUCE, prod(read[0]) // prod(result)
        self.found.own[var] = Sweep(kind, tuple(read), result, max(1, taps), dtype_of(var), rows)


def _row_window(pool: relax.Expr) -> RowWindow:
    """The rows that a pool reads."""
    attrs = pool.attrs
    reach = (int(attrs.pool_size[0]) - 1) * int(attrs.dilation[0]) + 1
    return RowWindow(reach, int(attrs.strides[0]), int(attrs.padding[0]))


def _flat_concats(region: Region) -> dict[relax.Var, list[relax.Expr]]:
    """What each concat reads once concats of concats are flat (:mod:`..flatten_concats`), however
    many there are in each other."""
    found: dict[relax.Var, list[relax.Expr]] = {}
    axes: dict[relax.Var, int] = {}
    for binding in region.bindings:
        axis = concat_axis(binding.value)
        if axis is None:
            continue
        parts: list[relax.Expr] = []
        for part in binding.value.args[0]:
            parts.extend(found[part] if axes.get(part) == axis else [part])
        found[binding.var], axes[binding.var] = parts, axis
    return found


def _flat_uses(
    region: Region, concats: Mapping[relax.Var, Sequence[relax.Expr]]
) -> Counter[relax.Var]:
    """How often each variable is read then. A concat that is not read any more reads nothing."""
    uses = Counter(region.uses)
    for binding in reversed(region.bindings):
        if binding.var not in concats:
            continue
        uses.subtract(binding.value.args[0])
        if uses[binding.var] or not region.uses[binding.var]:
            uses.update(concats[binding.var])
    return uses
