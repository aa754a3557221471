"""What the cost model says of a group, beside its layers one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import ModuleType
from typing import Any

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.topi.conv2d_depthwise import cost as depthwise
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct import cost as direct
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.conv2d_winograd import cost as winograd
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.cost.foreign import FOREIGN_L3_CYCLES, cycles_of_line, foreign_lines
from tvm_neocpu.topi.cost.ranking import predict_seconds as member_seconds
from tvm_neocpu.topi.cost.roofline import (
    CHUNK_CYCLES,
    EXPOSED,
    L2_SHARE,
    Near,
    streamed_bytes_per_cycle,
)
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, candidates, misfit
from tvm_neocpu.topi.fused_block.member import Member, packed_bytes
from tvm_neocpu.topi.fused_block.stack import is_stack

DTYPE = FP32.output
# The cost model of a member, by the template of its config.
MODELS: dict[type[Any], ModuleType] = {
    ConvConfig: direct,
    DepthwiseConfig: depthwise,
    WinogradConfig: winograd,
}
# Cycles of a tile's begin and end inside a group, where no other core begins with it. Zen 3, one
# thread, six blocks of MobileNet-v2 in bands of one and two rows: 150, as of a chunk, would be 3 %
# of a block too much.
TILE_CYCLES = 50.0
# Seconds of a layer's call where nothing forks. Zen 4, one thread: MobileNet-v2's groups of three
# layers at 14x14, whose maps L2 holds anyway, took 1 to 3 us less than the layers, 2 calls fewer.
CALL = 1e-6
# By how much of the time of its layers one by one the model errs in what a group gains. Zen 4, one
# thread, each group in its network, predicted to gain 2 to 3 %: PNASNet-5 mobile's 36 at 7x7 took
# 1.05 to 1.17 times as long as their layers, its 49 at 14x14 and 28x28 0.88 to 1.10 times (most of
# them 0.96 to 1.01), those of MobileNet-v2 and v3 0.98 to 1.02 times.
MARGIN = 0.03
# The same of a stack of dense layers, twice the largest error: only `tune` takes what is predicted
# to gain less. Zen 4, alone in a loop, 1 and 2 threads: the gain is from 7 % more than predicted to
# 1 % less where L2 holds the group. Where it does not, up to 13 % less (3->64->64 at 256x256), and
# 15 % with L3's bandwidth guessed, as that of most CPUs is.
STACK_MARGIN = 0.3
# A stack is looked at where its maps could gain this share if they cost nothing.
WORTH_A_LOOK = 0.03


@dataclass(frozen=True)
class PricedBlock:
    """A group with seconds of one run: its own, and those of its layers one by one."""

    block: FusedBlock
    fused: float
    apart: float

    @property
    def saved_share(self) -> float:
        """What the group surely saves, as a share of the time of its layers one by one.

        This is what the model predicts, less its error (:data:`MARGIN`, :data:`STACK_MARGIN`):
        negative where only a measurement can tell whether the group is faster.
        """
        margin = STACK_MARGIN if self.block.is_stack else MARGIN
        return 1 - margin - self.fused / self.apart

    @property
    def saved_seconds(self) -> float:
        """The same in seconds."""
        return self.saved_share * self.apart


def priced(block: FusedBlock, cpu: Cpu) -> PricedBlock:
    """Any group, with what the model says of it."""
    return PricedBlock(block, predict_seconds(block, cpu), apart_seconds(block, cpu))


def best_block(
    members: Sequence[Member], cpu: Cpu, taps: tuple[int, ...] = (), measured: bool = False
) -> PricedBlock | None:
    """The cheapest group of layers, whose rows between them fit L2; ``taps`` as the block has them.

    ``None`` where they do not fit together, where a stack has nothing to gain, and where they are
    predicted to be faster one by one. Whether it is worth taking unmeasured, its ``saved_share``
    says; more stacks are worth a look where it will be ``measured``.
    """
    if misfit(members) is not None:
        return None
    if is_stack(members) and not (may_gain(members, cpu) or (measured and _waits(members, cpu))):
        return None
    offered = candidates(members, cpu.cores, taps)
    fitting = [block for block in offered if block.working_bytes <= L2_SHARE * cpu.l2]
    seconds = [predict_seconds(block, cpu) for block in fitting]
    if not seconds:
        return None
    least = min(seconds)
    best = fitting[seconds.index(least)]
    apart = apart_seconds(best, cpu)
    return None if least >= apart else PricedBlock(best, least, apart)


def may_gain(members: Sequence[Member], cpu: Cpu) -> bool:
    """Whether a stack could gain :data:`WORTH_A_LOOK`, if nothing else changed.

    It spares the maps between layers a way to L3, or to memory, and back.
    """
    moved = sum(2 * member.workload.out_bytes for member in members[:-1])
    cycles = moved / streamed_bytes_per_cycle(moved, cpu)
    spared = cycles / (cpu.ghz * 1e9) + (len(members) - 1) * cpu.fork_join
    return spared > WORTH_A_LOOK * sum(
        member_seconds(member.workload, member.config, cpu) for member in members
    )


def _waits(members: Sequence[Member], cpu: Cpu) -> bool:
    """Whether a layer of a stack waits for L3 with nothing to do meanwhile.

    The model has a lower bound of that wait: the stack that gains most of those that were timed
    (16->32->64 at 208x208, Zen 4, 8 %) moves 2 % of its time. Where maps stay in L2 stacks that
    gain 1 to 3 % alone in a loop gain nothing in their networks (ResNet-18 and 50, DenseNet-121).
    """
    return any(_transform_cycles(reader, cpu) > 0 for reader in members[1:])


def predict_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of one run of the group on ``cpu.cores`` threads: one fork for all layers.

    What lies between two layers crosses neither L3 nor memory. What a tap makes is copied out: a
    store a cycle, and each line comes from L3 and leaves for it, while nothing else runs. A halo is
    computed by each run, and the last run of an image may be shorter than the others.
    """
    course, core = block.course, cpu.with_cores(1)
    work, last = 0.0, len(block.steps) - 1
    for at, (step, repeats) in enumerate(zip(block.steps, course.repeats, strict=True)):
        near = Near(at > 0, at < last, _beside(block, at) if block.is_stack else 0)
        seconds = _step_seconds(step.member, near, core) - cpu.fork_join
        cheaper = (CHUNK_CYCLES - TILE_CYCLES) * math.prod(step.extents) / (cpu.ghz * 1e9)
        work += (seconds - cheaper) * repeats
        if at in block.taps:
            cycles = 1 / (core.lanes(DTYPE) * item_bytes(DTYPE)) + 2 / core.l3_bytes_per_cycle
            work += step.conv.out_bytes * cycles / (cpu.ghz * 1e9)
    bands = math.ceil(block.chunks / cpu.cores) * course.bands.run
    share = bands * course.runs / (course.count * block.chunks)
    return work * min(1.0, share) + cpu.fork_join


def apart_seconds(block: FusedBlock, cpu: Cpu) -> float:
    """Seconds of its layers one by one: a layer reads what other cores have written.

    What a tap makes others read too, and wait for: none of that wait is counted as the group's.
    Dense layers split their rows alike, and find those of their own core.
    """
    seconds = sum(member_seconds(m.workload, m.config, cpu) for m in block.members)
    if cpu.cores == 1:
        # The model of a layer counts a fork on one core, too. A group would seem to spare it.
        seconds -= (len(block.members) - 1) * max(0.0, cpu.fork_join - CALL)
    if block.is_stack:
        cycles = sum(_transform_cycles(reader, cpu) for reader in block.members[1:])
        return seconds + cycles / (cpu.ghz * 1e9)
    pairs = enumerate(pairwise(block.members))
    cycles = sum(_foreign_cycles(*pair, cpu) for at, pair in pairs if at not in block.taps)
    return seconds + cycles / (cpu.ghz * 1e9)


def _transform_cycles(reader: Member, cpu: Cpu) -> float:
    """Cycles in which Winograd waits for its input to come from L3.

    It transforms a chunk before it multiplies: products hide none of that. The model of a layer by
    itself counts the share :data:`EXPOSED` already. What fits L2 is there still (64x56x56 behind
    itself gained nothing). This is a lower bound of the wait: 32x208x208->64 behind 16x208x208->32
    gained 440 us (Zen 4, one thread), and 5.5 MB come from L3 in 65 at 23 bytes a cycle.
    """
    is_near = reader.workload.in_bytes <= cpu.l2 * cpu.cores
    if is_near or not isinstance(reader.config, WinogradConfig):
        return 0.0
    rate = cpu.l3_bytes_per_cycle * cpu.cores
    return (1 - EXPOSED) * reader.workload.in_bytes / rate


def _foreign_cycles(writer: Member, reader: Member, cpu: Cpu) -> float:
    """Cycles in which a core waits for lines that another one has written.

    A 1x1 layer splits its work by rows or first by its own channels: then more than one core reads
    a row. A depthwise layer splits it by blocks of channels: a core reads its own blocks, row after
    row, so that prefetchers run ahead. Behind a layer that splits its work alike it finds the
    blocks of its own core.
    """
    if isinstance(writer.config, ConvConfig) and writer.config.parallel_oc:
        return 0.0
    read, cycles = 1 / cpu.cores, FOREIGN_L3_CYCLES
    if isinstance(reader.config, ConvConfig):
        geometry = DirectGeometry(reader.workload, reader.config)
        rows = math.ceil(geometry.chunks / cpu.cores) / (geometry.conv.batch * geometry.row_chunks)
        read = min(1.0, rows)
        cycles = cycles_of_line(writer.workload.out_bytes, cpu)
    return foreign_lines(writer.workload.out_bytes, read, cpu) * cycles


@lru_cache(maxsize=4096)
def _step_seconds(member: Member, near: Near, core: Cpu) -> float:
    seconds: float = MODELS[type(member.config)].predict_seconds(
        member.workload, member.config, core, near
    )
    return seconds


def _beside(block: FusedBlock, at: int) -> int:
    """Bytes of L2 that a layer of a stack leaves to the others: what lies between, their weights.

    Their scratch is gone when its turn comes again.
    """
    others = (step.member for place, step in enumerate(block.steps) if place != at)
    return block.kept_bytes + sum(map(packed_bytes, others))
