"""Run layers that follow each other in one function, band of rows by band.

What lies between them stays in a core's own cache (`topi/fused_block`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir import GlobalVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layer_group import GroupBands
from tvm_neocpu.relay_passes.fusing.bind_groups import Group, behind, bind_groups
from tvm_neocpu.relay_passes.fusing.layer_calls import (
    CallGroup,
    LayerCall,
    Reads,
    by_turns,
    key_of,
    reads_of,
    refusal,
    refusal_of_reads,
)
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, variables
from tvm_neocpu.relay_passes.ir.regions import Region, regions_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import rewrite_regions
from tvm_neocpu.relay_passes.memory.at_offsets import AtOffsets
from tvm_neocpu.topi.fused_block.cost import priced
from tvm_neocpu.topi.fused_block.geometry import FusedBlock
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.template import Layer, fused_function, member_of
from tvm_neocpu.topi.tir.functions.memory_params import takes_memory_params, with_memory_params

OP = tvm.ir.Op.get(CALL_TIR)
# What the functions of groups are called.
NAME = "fused_block"
_LOG = logging.getLogger("tvm_neocpu")
# What tells functions of groups apart: layers' functions and where each reads, taps.
_Key = tuple[tuple[tuple[str, int | None], ...], tuple[int, ...]]


@dataclass(frozen=True)
class FuseBlocks:
    """Layers, each of which alone reads the one before, become one call::

        x = conv2d(a, u)
        y = depthwise(x, w)
        z = conv2d_add(y, v, r)      ->      z = fused_block(a, u, w, v, r)

    ``groups`` are those of the plan. Each layer keeps its epilogue and its register tile. What
    something else reads too is one more output::

        x = conv2d(a, u)                  xy = fused_block(a, u, w)
        y = depthwise(x, w)        ->     x = xy[0]
        z = pool(x)                       y = xy[1]
                                          z = pool(x)

    Such a group is taken where the model finds it faster, with its output: the plan's layers may
    stand elsewhere without. Calls that read its outputs move behind it.

    ``ready`` is told of each group's function at once, as ``PlanMemory(at_offset)`` is expected to
    rewrite it.

    Needs: groups are fused and not scheduled; each function of a template still has its anchor.
    Leaves: functions of groups, scheduled and marked so; the others as they were.
    """

    name: ClassVar[str] = "fuse-blocks"
    cpu: Cpu
    groups: GroupBands
    ready: Callable[[tirx.PrimFunc], None] | None = None
    at_offset: Collection[str] = ()

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        if not self.groups:
            return mod
        told = None if self.ready is None else _Told.of(mod, self.at_offset, self.ready)
        search = _Search(mod, self.groups, self.cpu, told)
        for _, function in relax_functions(mod):
            for region in regions_of(function):
                search.visit(region)
        if not search.groups:
            return mod
        groups = search.groups
        return rewrite_regions(search.builder.get(), lambda scope: bind_groups(scope, groups))


@dataclass(frozen=True)
class _Told:
    """Who is told of functions, and what PlanMemory will make of layers' parameters.

    That is a guess: it looks at groups, not at their layers.
    """

    found: AtOffsets
    ready: Callable[[tirx.PrimFunc], None]

    @classmethod
    def of(
        cls, mod: tvm.IRModule, at_offset: Collection[str], ready: Callable[[tirx.PrimFunc], None]
    ) -> _Told:
        return cls(AtOffsets.of(mod, at_offset), ready)

    def tell(self, func: tirx.PrimFunc, chain: Sequence[LayerCall], block: FusedBlock) -> None:
        """Hand on a group's function; its parameters are the layers' operands, then outputs."""
        operands: list[bool] = []
        outputs: list[bool] = []
        over: list[int] = []
        args: list[relax.Expr] = []
        for at, (call, own) in enumerate(zip(chain, reads_of(chain), strict=True)):
            movable = set(self.found.movable.get(call.name, ()))
            count = len(call.func.params) - 1
            places = [place for place in range(count) if place != own]
            ending = self.found.over.get(call.name, ())
            over = [len(operands) + n for n, place in enumerate(places) if place in ending]
            args += [call.args[place] for place in places]
            operands += [place in movable for place in places]
            if at in block.taps or at == len(chain) - 1:
                outputs.append(count in movable)
        over = [place for place in over if sum(map(args[place].same_as, args)) == 1]
        moved = [at for at, is_movable in enumerate([*operands, *outputs]) if is_movable]
        fits = takes_memory_params(func)
        self.ready(with_memory_params(func, moved, over).func if fits else func)


class _Search:
    """The groups of a module, and their functions in a builder of the module."""

    def __init__(
        self, mod: tvm.IRModule, planned: GroupBands, cpu: Cpu, told: _Told | None
    ) -> None:
        self.groups: list[Group] = []
        self._told = told
        self.builder = relax.BlockBuilder(mod)
        self._mod, self._planned, self._cpu = mod, planned, cpu
        self._begins = {members[:end] for members in planned for end in range(1, len(members) + 1)}
        self._functions: dict[_Key, GlobalVar | None] = {}
        self._members: dict[str, Member | None] = {}

    def visit(self, region: Region) -> None:
        """Take the groups of one region."""
        calls = [call for binding in region.bindings if (call := self._call(binding)) is not None]
        readers: dict[relax.Var, list[LayerCall]] = defaultdict(list)
        for call in calls:
            for var in dict.fromkeys(variables(call.binding.value)):
                readers[var].append(call)
        chains = [self._chain_from(call, readers) for call in calls]
        # The longest group of the plan first: others may be parts of it.
        begins = (chain[:end] for chain in chains for end in range(len(chain), 1, -1))
        parts = [part for begin in begins if (part := self._part(begin, region)) is not None]
        taken: set[relax.Var] = set()
        for part in by_turns(parts, self._cpu):
            if taken.isdisjoint(part.own) and self._take(part, region):
                taken |= part.own

    def _call(self, binding: relax.VarBinding) -> LayerCall | None:
        value = binding.value
        if op_name(value) != CALL_TIR or len(value.args) != 2:
            return None
        name = str(value.args[0].name_hint)
        if name not in self._members:
            self._members[name] = member_of(self._mod[name])
        member = self._members[name]
        return None if member is None else LayerCall(binding, self._mod[name], member)

    def _chain_from(
        self, call: LayerCall, readers: Mapping[relax.Var, Sequence[LayerCall]]
    ) -> list[LayerCall]:
        """The call, the first one that reads its result and goes on with a group, and so on."""
        chain = [call]
        while True:
            nexts = readers.get(chain[-1].binding.var, ())
            found = next((each for each in nexts if key_of([*chain, each]) in self._begins), None)
            if found is None:
                return chain
            chain.append(found)

    def _part(self, chain: Sequence[LayerCall], region: Region) -> CallGroup | None:
        """Calls as a group of the plan; ``None`` where it has none of these layers."""
        bands = self._planned.get(key_of(chain))
        if bands is None:
            return None
        members = tuple(call.member for call in chain)
        reason = refusal(members, bands)
        if reason is not None:
            _LOG.debug("left apart: %s", reason)
            return None
        taps = tuple(at for at, call in enumerate(chain[:-1]) if region.uses[call.binding.var] > 1)
        return CallGroup(tuple(chain), FusedBlock(members, bands, taps=taps))

    def _take(self, part: CallGroup, region: Region) -> bool:
        """Make calls a group, if they can be one."""
        chain, block = part.calls, part.block
        taps, reads = block.taps, reads_of(chain)
        args = [
            arg
            for call, own in zip(chain, reads, strict=True)
            for at, arg in enumerate(call.args)
            if at != own
        ]
        reason = refusal_of_reads(chain, reads)
        if reason is None and taps:
            reason = self._refusal_of_taps(chain, block, args, region)
        name = None if reason else self._function(chain, block, reads)
        if name is None:
            nests = f"more than one loop nest computes a layer before {block.members[-1].workload}"
            _LOG.debug("left apart: %s", reason or nests)
            return False
        last = chain[-1].binding
        tapped = tuple(chain[at].binding for at in taps)
        types = [each.value.ty_args[0] for each in (*tapped, last)]
        types = [relax.TupleType(types)] if tapped else types
        call = relax.Call(OP, [name, relax.Tuple(args)], None, types)
        self.groups.append(Group(tuple(each.binding for each in chain[:-1]), last, call, tapped))
        return True

    def _refusal_of_taps(
        self,
        chain: Sequence[LayerCall],
        block: FusedBlock,
        args: Sequence[relax.Expr],
        region: Region,
    ) -> str | None:
        """Why a layer of the group, which reads ``args``, cannot or should not be an output too."""
        tapped = [block.members[at].workload for at in block.taps]
        if priced(block, self._cpu).saved_share <= 0:
            return f"not surely faster with {tapped[0]} as an output"
        taps = {chain[at].binding.var for at in block.taps}
        waiting = behind(taps, {call.binding.var for call in chain}, region, self.groups)
        if any(arg in waiting for arg in args):
            return f"a layer of the group needs what something else makes of {tapped[0]}"
        return None

    def _function(
        self, chain: Sequence[LayerCall], block: FusedBlock, reads: Reads
    ) -> GlobalVar | None:
        """The group's function; ``None`` where a layer has more than one loop nest."""
        key = (tuple((call.name, own) for call, own in zip(chain, reads, strict=True)), block.taps)
        if key not in self._functions:
            layers = [Layer(call.func, own) for call, own in zip(chain, reads, strict=True)]
            func = fused_function(block, layers, self._cpu)
            self._functions[key] = None if func is None else self.builder.add_func(func, NAME)
            if func is not None and self._told is not None:
                self._told.tell(func, chain, block)
        return self._functions[key]
