"""Calls of templates' functions that follow each other, and which of them may be one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from tvm import relax, tirx

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layer_group import Bands, Members
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.fused_block.cost import priced
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, is_band, misfit
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.schedule.steps import block_name, names_upstream
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import anchor_of

# Of each layer of a chain the position of the argument that the layer before writes.
Reads = tuple[int | None, ...]


@dataclass(frozen=True)
class LayerCall:
    """A call of a template's function, and the layer that the function computes."""

    binding: relax.VarBinding
    func: tirx.PrimFunc
    member: Member

    @property
    def name(self) -> str:
        return str(self.binding.value.args[0].name_hint)

    @property
    def args(self) -> tuple[relax.Expr, ...]:
        return tuple(self.binding.value.args[1].fields[:])

    def reads_as_data(self, var: relax.Var) -> int | None:
        """The position of a variable among the arguments; ``None`` where it is no layer's data.

        A residual that the epilogue adds is none, nor is a variable that is read twice.
        """
        places = [at for at, arg in enumerate(self.args) if arg.same_as(var)]
        return places[0] if len(places) == 1 and places[0] in self.data_places else None

    @cached_property
    def data_places(self) -> frozenset[int]:
        """The parameters that only the anchor reads, and what stands in front of it: padding and a
        prologue.
        """
        sch = UncheckedSchedule(self.func)
        anchor = anchor_of(sch)
        assert anchor is not None
        before = {block_name(sch, anchor.block)} | names_upstream(sch, anchor.block)
        behind = [
            read.source
            for block in child_blocks(sch)
            if block_name(sch, block) not in before
            for read in sch.get(block).reads[:]
        ]
        return frozenset(
            at
            for at, param in enumerate(self.func.params[:])
            if not any(source.same_as(param) for source in behind)
        )


@dataclass(frozen=True)
class CallGroup:
    """Calls that may be a group of the plan."""

    calls: tuple[LayerCall, ...]
    block: FusedBlock

    @cached_property
    def own(self) -> frozenset[relax.Var]:
        return frozenset(call.binding.var for call in self.calls)


def by_turns(parts: Sequence[CallGroup], cpu: Cpu) -> list[CallGroup]:
    """Groups in the order in which they are taken: those without an output first, it costs time.

    What a longer group with an output gains more by comes last: its place if that one is refused.
    """
    plain = [part for part in parts if not part.block.taps]
    tapped = [part for part in parts if part.block.taps]
    outdone = {
        part.own
        for part in plain
        for other in tapped
        if part.own < other.own and _gain(part, cpu) < _gain(other, cpu)
    }
    first = [part for part in plain if part.own not in outdone]
    return [*first, *tapped, *(part for part in plain if part.own in outdone)]


def _gain(part: CallGroup, cpu: Cpu) -> float:
    """Seconds that a group surely saves."""
    return priced(part.block, cpu).saved_seconds


def refusal(members: Sequence[Member], bands: Bands) -> str | None:
    """Why layers of the plan are no group; ``None`` if they may be one."""
    reason = misfit(members)
    if reason is not None:
        return reason
    if not is_band(members, bands):
        last = members[-1].workload
        return f"{bands.rows} rows in runs of {bands.run} are no bands of {last}"
    return None


def refusal_of_reads(chain: Sequence[LayerCall], reads: Reads) -> str | None:
    """Why calls cannot hand their results on inside a group; ``None`` if they can."""
    for call, own in zip(chain[:-1], reads[1:], strict=True):
        if own is None:
            return f"{call.member.workload} is an operand of the epilogue"
    return None


def reads_of(chain: Sequence[LayerCall]) -> Reads:
    """Where each call reads the one before; ``None`` for the first one, and where none does."""
    pairs = pairwise(chain)
    return (None, *(reader.reads_as_data(call.binding.var) for call, reader in pairs))


def key_of(chain: Sequence[LayerCall]) -> Members:
    """The layers of a chain as a plan names its groups."""
    return tuple((call.member.workload, call.member.config) for call in chain)
