"""Run 1x1 -> depthwise -> 1x1 band by band, in one function, where the cost model gains.

What lies between the layers stays in a core's own cache (`topi/fused_block`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir import GlobalVar
from tvm.s_tir import Schedule, ScheduleError

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.relay_passes.ir.exprs import op_name, variables
from tvm_neocpu.relay_passes.ir.regions import Region, regions_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.template import PAD as DEPTHWISE_PAD
from tvm_neocpu.topi.fused_block.cost import apart_seconds, best_block, predict_seconds
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member
from tvm_neocpu.topi.fused_block.template import Layer, fused_function
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.topi.schedule.steps import block_name

CALL_TIR = "relax.call_tir"
OP = tvm.ir.Op.get(CALL_TIR)
# What the functions of groups are called.
NAME = "fused_block"
_LOG = logging.getLogger("tvm_neocpu")


@dataclass(frozen=True)
class FuseBlocks:
    """Calls of layers that follow each other become one call, if that is predicted to be faster.

    A depthwise layer, with the 1x1 layer in front of it, behind it, or both::

        y = conv2d(x, v)
        z = depthwise(y, w)       ->      r = fused_block(x, v, w, u, x)
        r = conv2d_add(z, u, x)

    Needs: groups are fused and not scheduled; each function of a template still has its anchor.
    Leaves: functions of groups, scheduled and marked so; the others as they were.
    """

    name: ClassVar[str] = "fuse-blocks"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        search = _Search(mod, self.cpu)
        for _, function in relax_functions(mod):
            for region in regions_of(function):
                search.visit(region)
        if not search.groups:
            return mod
        groups = search.groups
        return rewrite_regions(search.builder.get(), lambda scope: _rewrite(scope, groups))


@dataclass(frozen=True)
class _Call:
    """A call of a template's function, and the layer that the function computes."""

    binding: relax.VarBinding
    func: tirx.PrimFunc
    member: Member

    @property
    def name(self) -> str:
        return str(self.binding.value.args[0].name_hint)

    @property
    def args(self) -> tuple[relax.Expr, ...]:
        return tuple(self.binding.value.args[1])

    def reads_as_data(self, var: relax.Var) -> int | None:
        """The position of a variable among the arguments; ``None`` where it is no layer's data.

        A residual that the epilogue adds is none, nor is a variable that is read twice.
        """
        places = [at for at, arg in enumerate(self.args) if arg.same_as(var)]
        if len(places) != 1:
            return None
        sch = Schedule(self.func)
        anchor = anchor_of(sch)
        assert anchor is not None
        own = {block_name(sch, anchor.block), DEPTHWISE_PAD}
        buffer = self.func.params[places[0]]
        readers = {
            block_name(sch, block)
            for block in child_blocks(sch)
            if any(read.source.same_as(buffer) for read in sch.get(block).reads)
        }
        return places[0] if readers <= own else None


@dataclass(frozen=True)
class _Group:
    """Bindings that become one: all but the last vanish, the last one becomes ``call``."""

    bindings: tuple[relax.VarBinding, ...]
    call: relax.Call


class _Search:
    """The groups of a module, and their functions in a builder of the module."""

    def __init__(self, mod: tvm.IRModule, cpu: Cpu) -> None:
        self.groups: list[_Group] = []
        self.builder = relax.BlockBuilder(mod)
        self._mod, self._cpu = mod, cpu
        self._names: dict[tuple[object, ...], GlobalVar | None] = {}
        self._members: dict[str, Member | None] = {}

    def visit(self, region: Region) -> None:
        """Take the groups of one region, in program order; no call is in two."""
        calls = {b.var: call for b in region.bindings if (call := self._call(b)) is not None}
        free = set(calls)
        readers = _only_readers(region, calls)
        for var, call in calls.items():
            if not call.member.workload.is_depthwise or var not in free:
                continue
            before = next((calls[v] for v in call.args if v in free and readers.get(v) is call), None)
            chosen = self._best(before, call, _free(readers.get(var), free))
            if chosen is not None:
                self.groups.append(chosen)
                free -= {binding.var for binding in chosen.bindings}

    def _call(self, binding: relax.VarBinding) -> _Call | None:
        value = binding.value
        if op_name(value) != CALL_TIR or len(value.args) != 2:
            return None
        name = str(value.args[0].name_hint)
        if name not in self._members:
            self._members[name] = _member_of(self._mod[name])
        member = self._members[name]
        return None if member is None else _Call(binding, self._mod[name], member)

    def _best(self, before: _Call | None, middle: _Call, after: _Call | None) -> _Group | None:
        """The group around a depthwise layer that gains most; ``None`` where none gains."""
        found: list[tuple[float, FusedBlock, list[_Call]]] = []
        for first, last in ((before, after), (before, None), (None, after)):
            calls = [call for call in (first, middle, last) if call is not None]
            members = (None if first is None else first.member, None if last is None else last.member)
            block = best_block(members[0], middle.member, members[1], self._cpu)
            if block is not None and len(calls) > 1 and len(calls) == len(block.members):
                gain = apart_seconds(block, self._cpu) - predict_seconds(block, self._cpu)
                found.append((gain, block, calls))
        for gain, block, calls in sorted(found, key=lambda each: -each[0]):
            group = self._group(block, calls) if gain > 0 else None
            if group is not None:
                return group
        return None

    def _group(self, block: FusedBlock, calls: Sequence[_Call]) -> _Group | None:
        layers: list[Layer] = []
        for at, call in enumerate(calls):
            reads = call.reads_as_data(calls[at - 1].binding.var) if at else None
            if at and reads is None:
                return None
            layers.append(Layer(call.member, call.func, reads))
        key = (block.rows, *((call.name, layer.reads) for call, layer in zip(calls, layers, strict=True)))
        if key not in self._names:
            func = fused_function(block, layers, self._cpu)
            self._names[key] = None if func is None else self.builder.add_func(func, NAME)
        name = self._names[key]
        if name is None:
            _LOG.debug("left apart, more than one loop nest: %s", block.conv)
            return None
        args = [
            arg
            for call, layer in zip(calls, layers, strict=True)
            for at, arg in enumerate(call.args)
            if at != layer.reads
        ]
        bindings = tuple(call.binding for call in calls)
        result = bindings[-1].value.ty_args
        return _Group(bindings, relax.Call(OP, [name, relax.Tuple(args)], None, result))


def _member_of(func: tirx.PrimFunc) -> Member | None:
    """The layer that a template's function computes; ``None`` for any other function."""
    try:
        anchor = anchor_of(Schedule(func)) if isinstance(func, tirx.PrimFunc) else None
    except ScheduleError:
        return None
    if anchor is None or not isinstance(anchor.workload, ConvWorkload):
        return None
    return Member(anchor.workload, anchor.config)


def _only_readers(
    region: Region, calls: Mapping[relax.Var, _Call]
) -> dict[relax.Var, _Call]:
    """The one call that reads a variable, where nothing else does."""
    return {
        var: call
        for call in calls.values()
        for var in variables(call.binding.value)
        if region.uses[var] == 1
    }


def _free(call: _Call | None, free: set[relax.Var]) -> _Call | None:
    return call if call is not None and call.binding.var in free else None


def _rewrite(scope: Scope, groups: Sequence[_Group]) -> None:
    calls = {group.bindings[-1].var: group.call for group in groups}
    gone = {binding.var for group in groups for binding in group.bindings[:-1]}
    for binding in scope.region.bindings:
        if binding.var not in gone:
            scope.bind(binding.var, calls.get(binding.var, binding.value))
