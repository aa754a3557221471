"""Run a depthwise layer and the 1x1 layer behind it in one function, group of rows by group.

What lies between them stays in a core's own cache (`topi/fused_block`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir import GlobalVar
from tvm.s_tir import ScheduleError

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layer_group import GroupRows
from tvm_neocpu.relay_passes.ir.exprs import op_name, variables
from tvm_neocpu.relay_passes.ir.regions import Region, regions_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member, candidates, misfit
from tvm_neocpu.topi.fused_block.template import Layers, fused_function
from tvm_neocpu.topi.schedule.steps import block_name
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import anchor_of

CALL_TIR = "relax.call_tir"
OP = tvm.ir.Op.get(CALL_TIR)
# What the functions of groups are called.
NAME = "fused_block"
_LOG = logging.getLogger("tvm_neocpu")


@dataclass(frozen=True)
class FuseBlocks:
    """A depthwise layer and the 1x1 layer that alone reads it become one call::

        y = depthwise(x, w)
        z = conv2d_add(y, v, r)      ->      z = fused_block(x, w, v, r)

    ``groups`` are those of the plan. Each layer keeps its epilogue and its register tile.

    Needs: groups are fused and not scheduled; each function of a template still has its anchor.
    Leaves: functions of groups, scheduled and marked so; the others as they were.
    """

    name: ClassVar[str] = "fuse-blocks"
    cpu: Cpu
    groups: GroupRows

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        if not self.groups:
            return mod
        search = _Search(mod, self.groups, self.cpu)
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
        sch = UncheckedSchedule(self.func)
        anchor = anchor_of(sch)
        assert anchor is not None
        buffer = self.func.params[places[0]]
        readers = {
            block_name(sch, block)
            for block in child_blocks(sch)
            if any(read.source.same_as(buffer) for read in sch.get(block).reads)
        }
        return places[0] if readers == {block_name(sch, anchor.block)} else None


@dataclass(frozen=True)
class _Group:
    """Two bindings that become one: the first one vanishes, the second one becomes ``call``."""

    first: relax.VarBinding
    last: relax.VarBinding
    call: relax.Call


class _Search:
    """The groups of a module, and their functions in a builder of the module."""

    def __init__(self, mod: tvm.IRModule, rows: GroupRows, cpu: Cpu) -> None:
        self.groups: list[_Group] = []
        self.builder = relax.BlockBuilder(mod)
        self._mod, self._rows, self._cpu = mod, rows, cpu
        self._functions: dict[tuple[str, str, int], GlobalVar | None] = {}
        self._members: dict[str, Member | None] = {}

    def visit(self, region: Region) -> None:
        """Take the groups of one region."""
        calls = [call for binding in region.bindings if (call := self._call(binding)) is not None]
        readers = {
            var: call
            for call in calls
            for var in variables(call.binding.value)
            if region.uses[var] == 1
        }
        for call in calls:
            reader = readers.get(call.binding.var)
            if call.member.workload.is_depthwise and reader is not None:
                self._take(call, reader)

    def _call(self, binding: relax.VarBinding) -> _Call | None:
        value = binding.value
        if op_name(value) != CALL_TIR or len(value.args) != 2:
            return None
        name = str(value.args[0].name_hint)
        if name not in self._members:
            self._members[name] = _member_of(self._mod[name])
        member = self._members[name]
        return None if member is None else _Call(binding, self._mod[name], member)

    def _take(self, first: _Call, last: _Call) -> None:
        """Make two calls a group, if the plan says so and they can be one."""
        members = (first.member, last.member)
        rows = self._rows.get(tuple((each.workload, each.config) for each in members))
        if rows is None:
            return
        block, reason = FusedBlock(*members, rows), misfit(*members)
        if reason is None and block not in candidates(*members):
            reason = f"{rows} rows are no band of {block.conv}"
        if reason is not None:
            _LOG.debug("left apart: %s", reason)
            return
        reads = last.reads_as_data(first.binding.var)
        if reads is None:
            _LOG.debug("left apart: %s is an operand of the epilogue", block.conv)
            return
        key = (first.name, last.name, reads)
        if key not in self._functions:
            func = fused_function(block, Layers(first.func, last.func, reads), self._cpu)
            self._functions[key] = None if func is None else self.builder.add_func(func, NAME)
        name = self._functions[key]
        if name is None:
            _LOG.debug("left apart: more than one loop nest computes %s", block.conv)
            return
        rest = [arg for at, arg in enumerate(last.args) if at != reads]
        args = [name, relax.Tuple([*first.args, *rest])]
        call = relax.Call(OP, args, None, last.binding.value.ty_args)
        self.groups.append(_Group(first.binding, last.binding, call))


def _member_of(func: tirx.PrimFunc) -> Member | None:
    """The layer that a template's function computes; ``None`` for any other function."""
    try:
        anchor = anchor_of(UncheckedSchedule(func)) if isinstance(func, tirx.PrimFunc) else None
    except ScheduleError:
        return None
    if anchor is None or not isinstance(anchor.workload, ConvWorkload):
        return None
    return Member(anchor.workload, anchor.config)


def _rewrite(scope: Scope, groups: Sequence[_Group]) -> None:
    calls = {group.last.var: group.call for group in groups}
    gone = {group.first.var for group in groups}
    for binding in scope.region.bindings:
        if binding.var not in gone:
            scope.bind(binding.var, calls.get(binding.var, binding.value))
