"""Run layers that follow each other in one function, band of rows by band.

What lies between them stays in a core's own cache (`topi/fused_block`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir import GlobalVar

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layer_group import Bands, GroupBands
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, variables
from tvm_neocpu.relay_passes.ir.regions import Region, regions_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member, is_band, misfit
from tvm_neocpu.topi.fused_block.template import Layer, fused_function, member_of
from tvm_neocpu.topi.schedule.steps import block_name, names_upstream
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import anchor_of

OP = tvm.ir.Op.get(CALL_TIR)
# What the functions of groups are called.
NAME = "fused_block"
_LOG = logging.getLogger("tvm_neocpu")
# Of each layer of a chain the position of the argument that the layer before writes.
Reads = tuple[int | None, ...]


@dataclass(frozen=True)
class FuseBlocks:
    """Layers, each of which alone reads the one before, become one call::

        x = conv2d(a, u)
        y = depthwise(x, w)
        z = conv2d_add(y, v, r)      ->      z = fused_block(a, u, w, v, r)

    ``groups`` are those of the plan. Each layer keeps its epilogue and its register tile.

    Needs: groups are fused and not scheduled; each function of a template still has its anchor.
    Leaves: functions of groups, scheduled and marked so; the others as they were.
    """

    name: ClassVar[str] = "fuse-blocks"
    cpu: Cpu
    groups: GroupBands

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
        # Padding and a prologue stand in front of the anchor.
        before = {block_name(sch, anchor.block)} | names_upstream(sch, anchor.block)
        return places[0] if readers <= before else None


@dataclass(frozen=True)
class _Group:
    """Bindings that become one: all but the last vanish, the last one becomes ``call``."""

    gone: tuple[relax.VarBinding, ...]
    last: relax.VarBinding
    call: relax.Call


class _Search:
    """The groups of a module, and their functions in a builder of the module."""

    def __init__(self, mod: tvm.IRModule, planned: GroupBands, cpu: Cpu) -> None:
        self.groups: list[_Group] = []
        self.builder = relax.BlockBuilder(mod)
        self._mod, self._planned, self._cpu = mod, planned, cpu
        self._longest = max(map(len, planned))
        self._functions: dict[tuple[tuple[str, int | None], ...], GlobalVar | None] = {}
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
        taken: set[relax.Var] = set()
        for call in calls:
            chain = self._chain_from(call, readers)
            # The longest group of the plan first: others may be parts of it.
            for end in range(len(chain), 1, -1):
                if any(each.binding.var in taken for each in chain[:end]):
                    continue
                if self._take(chain[:end]):
                    taken |= {each.binding.var for each in chain[:end]}
                    break

    def _call(self, binding: relax.VarBinding) -> _Call | None:
        value = binding.value
        if op_name(value) != CALL_TIR or len(value.args) != 2:
            return None
        name = str(value.args[0].name_hint)
        if name not in self._members:
            self._members[name] = member_of(self._mod[name])
        member = self._members[name]
        return None if member is None else _Call(binding, self._mod[name], member)

    def _chain_from(self, call: _Call, readers: Mapping[relax.Var, _Call]) -> list[_Call]:
        """The call, the only one that reads its result, the only one that reads that one's.."""
        chain = [call]
        while len(chain) < self._longest and (reader := readers.get(chain[-1].binding.var)):
            chain.append(reader)
        return chain

    def _take(self, chain: Sequence[_Call]) -> bool:
        """Make calls a group, if the plan says so and they can be one."""
        members = tuple(call.member for call in chain)
        bands = self._planned.get(tuple((each.workload, each.config) for each in members))
        if bands is None:
            return False
        reads = _reads_of(chain)
        reason = _refusal(members, bands, reads)
        block = FusedBlock(members, bands)
        name = None if reason else self._function(chain, block, reads)
        if name is None:
            nests = f"more than one loop nest computes a layer before {members[-1].workload}"
            _LOG.debug("left apart: %s", reason or nests)
            return False
        args = [
            arg
            for call, own in zip(chain, reads, strict=True)
            for at, arg in enumerate(call.args)
            if at != own
        ]
        last = chain[-1].binding
        call = relax.Call(OP, [name, relax.Tuple(args)], None, last.value.ty_args)
        self.groups.append(_Group(tuple(each.binding for each in chain[:-1]), last, call))
        return True

    def _function(
        self, chain: Sequence[_Call], block: FusedBlock, reads: Reads
    ) -> GlobalVar | None:
        """The group's function; ``None`` where a layer has more than one loop nest."""
        key = tuple((call.name, own) for call, own in zip(chain, reads, strict=True))
        if key not in self._functions:
            layers = [Layer(call.func, own) for call, own in zip(chain, reads, strict=True)]
            func = fused_function(block, layers, self._cpu)
            self._functions[key] = None if func is None else self.builder.add_func(func, NAME)
        return self._functions[key]


def _refusal(members: Sequence[Member], bands: Bands, reads: Reads) -> str | None:
    """Why layers of the plan are no group; ``None`` if they may be one."""
    reason = misfit(members)
    if reason is not None:
        return reason
    if not is_band(members, bands):
        last = members[-1].workload
        return f"{bands.rows} rows in runs of {bands.run} are no bands of {last}"
    for member, own in zip(members[:-1], reads[1:], strict=True):
        if own is None:
            return f"{member.workload} is an operand of the epilogue"
    return None


def _reads_of(chain: Sequence[_Call]) -> Reads:
    """Where each call reads the one before; ``None`` for the first one, and where none does."""
    pairs = pairwise(chain)
    return (None, *(reader.reads_as_data(call.binding.var) for call, reader in pairs))


def _rewrite(scope: Scope, groups: Sequence[_Group]) -> None:
    calls = {group.last.var: group.call for group in groups}
    gone = {binding.var for group in groups for binding in group.gone}
    for binding in scope.region.bindings:
        if binding.var not in gone:
            scope.bind(binding.var, calls.get(binding.var, binding.value))
