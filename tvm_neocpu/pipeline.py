"""The way from a Relax module of known shapes to scheduled code; no algorithm lives here.

model -> fold -> conv graph -> candidates -> global search -> alter layout -> lower

The order of the passes stands here, with the reason for each place. A pass's docstring says what it
needs before it and what holds after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import tvm
from tvm import tirx

from tvm_neocpu.choose_plan import choose_plans, sharing_plan
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import OnFallback, tell
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import GroupBands
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.relay_passes.channels.fold_channel_shuffle import FoldChannelShuffle
from tvm_neocpu.relay_passes.channels.group_norms import GroupNorms
from tvm_neocpu.relay_passes.channels.mark_channel_moves import MarkChannelMoves
from tvm_neocpu.relay_passes.channels.pad_channels import PadChannels
from tvm_neocpu.relay_passes.channels.pad_data import PadData
from tvm_neocpu.relay_passes.channels.widen_groups import WidenGroups
from tvm_neocpu.relay_passes.convolutions.absorb_transposes import AbsorbTransposes
from tvm_neocpu.relay_passes.convolutions.computed_filters import ComputedFilters
from tvm_neocpu.relay_passes.convolutions.computed_transposes import ComputedTransposes
from tvm_neocpu.relay_passes.convolutions.dilated_as_dense import DilatedAsDense
from tvm_neocpu.relay_passes.convolutions.late_resizes import LateResizes
from tvm_neocpu.relay_passes.convolutions.plain_products import PlainProducts
from tvm_neocpu.relay_passes.convolutions.split_reductions import SplitReductions
from tvm_neocpu.relay_passes.convolutions.sub_pixel_transpose import SubPixelTranspose
from tvm_neocpu.relay_passes.convolutions.tokens_as_images import TokensAsImages
from tvm_neocpu.relay_passes.folding.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.fusing.fuse_blocks import FuseBlocks
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.fusing.fuse_pools import FusePools
from tvm_neocpu.relay_passes.ir.half_weights import half_layers
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.layouts.flatten_concats import FlattenConcats
from tvm_neocpu.relay_passes.linear.fold_linear_ops import FoldLinearOps
from tvm_neocpu.relay_passes.linear.fold_parallel_branches import FoldParallelBranches
from tvm_neocpu.relay_passes.linear.scaled_filters import ScaledFilters
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LayoutKey, LowerToTemplates
from tvm_neocpu.relay_passes.lowering.lowered_before import LoweredBefore
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.lowering.waking_threads import on_one_core
from tvm_neocpu.relay_passes.memory.order_calls import OrderCalls
from tvm_neocpu.relay_passes.memory.plan_memory import PlanMemory
from tvm_neocpu.relay_passes.memory.separate_branches import SeparateBranches
from tvm_neocpu.relay_passes.planar.convs_over_images import ConvsOverImages
from tvm_neocpu.relay_passes.planning.alter_op_layout import AlterOpLayout
from tvm_neocpu.relay_passes.planning.eliminate_transforms import EliminateTransforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.relay_passes.quantized.absorb_zero_points import AbsorbZeroPoints
from tvm_neocpu.relay_passes.quantized.integer_operators import IntegerOperators, is_quantized
from tvm_neocpu.relay_passes.quantized.note_weight_bits import NoteWeightBits
from tvm_neocpu.relay_passes.store_half_weights import StoreHalfWeights
from tvm_neocpu.topi.cost.speed_check import warn_if_slow
from tvm_neocpu.topi.scheduled_before import ScheduledBefore
from tvm_neocpu.tuning.database.history import History, current_history

# No groups: each layer is a function of its own.
APART: GroupBands = MappingProxyType({})


def lower(
    mod: tvm.IRModule,
    cpu: Cpu,
    history: History | None = None,
    fallback: OnFallback = "warn",
) -> tvm.IRModule:
    """Everything before code generation: scheduled functions, and networks that call them.

    ``fallback`` says what happens where no template takes an arithmetic-heavy operation: a warning,
    FallbackError, or nothing. A network that is slow by prediction gets a warning of its own.
    """
    network = plan_network(mod, cpu, history, fallback)
    return schedule_module(compute(network, cpu), cpu, network.groups)


@dataclass(frozen=True)
class PlannedNetwork:
    """A folded module, its conv graph, and the plan to lower it by.

    ``shares`` says that the plan packs weights as another network's does. ``beside``: predicted
    seconds of the layers that it has no choice for. ``on_one_core``: its threads would save less
    than waking them takes.
    """

    folded: tvm.IRModule
    graph: ConvGraph
    plan: Plan
    shares: bool = False
    beside: float = 0.0
    on_one_core: bool = False

    @property
    def groups(self) -> GroupBands:
        """The layers that one function computes."""
        return APART if self.on_one_core else self.plan.group_bands(self.graph)


def plan_network(
    mod: tvm.IRModule,
    cpu: Cpu,
    history: History | None = None,
    fallback: OnFallback = "warn",
    models: Sequence[PlannedNetwork] = (),
    sharing_may_cost: float = 1.0,
    in_place: bool = False,
) -> PlannedNetwork:
    """Everything that is decided before lowering.

    ``models`` are the same network at other shapes. The packed weights of one of them are shared
    where the run is predicted to take at most ``sharing_may_cost`` times as long then. ``in_place``
    is that of :func:`fold`.
    """
    folded = fold(mod, cpu, in_place)
    coverage = FindFallbacks(cpu)(folded)
    tell(coverage, fallback)  # before the search, which may take seconds
    graph = ExtractConvGraph(cpu)(folded)
    history = history or current_history(cpu)
    plan, alone, _ = choose_plans(folded, graph, coverage, cpu, history)
    if fallback != "ignore":
        warn_if_slow(graph, plan, coverage, cpu)
    if alone is not None:
        return PlannedNetwork(folded, graph, alone, on_one_core=True)
    shared = sharing_plan(graph, [(model.graph, model.plan) for model in models], cpu, history)
    if shared is not None and shared.seconds <= plan.seconds * sharing_may_cost:
        return PlannedNetwork(folded, graph, shared, True, coverage.fixed_seconds)
    return PlannedNetwork(folded, graph, plan, beside=coverage.fixed_seconds)


def compute(network: PlannedNetwork, cpu: Cpu) -> tvm.IRModule:
    """The planned network's functions, fused and not scheduled yet."""
    cpu = cpu.with_cores(1) if network.on_one_core else cpu
    altered = apply_plan(network.folded, network.plan, cpu)
    computed = compute_templates(altered, network.plan.by_layout(network.graph), cpu)
    return on_one_core(computed) if network.on_one_core else computed


def fold(
    mod: tvm.IRModule, cpu: Cpu, in_place: bool = False, whole_layers: bool = False
) -> tvm.IRModule:
    """Constants evaluated, importer's detours straightened, linear operations folded (CDUCA).

    With ``in_place`` folded weights take the memory of the module's own, which is of no use then.
    With ``whole_layers`` none is split into parts: who chooses a layer's precision wants all of it.
    """
    mod = run_passes(
        mod,
        FoldConstants(),  # first: every pass below looks for constants
        GroupNorms(),  # before sequences are images: what it makes of one is an image
        ConvsOverImages(cpu),  # all passes below know convolutions of two axes only
        Canonicalize(),  # merges the reshapes and places the padding that the next two read
    )
    if is_quantized(mod):
        # After Canonicalize, which spells clips and pads alike; before all that rewrites
        # convolutions of floats. What it leaves in floats gets constants, for the first passes.
        looks_up = cpu.look_up is not None and cpu.look_up.beats_products
        mod = run_passes(mod, IntegerOperators(looks_up), FoldConstants(), Canonicalize())
    mod = run_passes(
        mod,
        ScaledFilters(),  # makes weights constants, for all that folds into them
        MarkChannelMoves(),  # finds the shuffles that FoldChannelShuffle absorbs
        FoldParallelBranches(),  # its convolutions may fold with what follows the sum
        FoldLinearOps(in_place),  # while batch norms stand next to transposed convolutions
    )
    # Behind what reads matmul; batch norms that are not folded would stand behind sums.
    commuted = run_passes(mod, TokensAsImages(), LateResizes(cpu))
    if commuted is not mod:  # 1x1 convolutions that moved have new neighbours
        commuted = run_passes(commuted, FoldLinearOps(in_place))
    in_half, parts = StoreHalfWeights(cpu), () if whole_layers else (SplitReductions(cpu),)
    return run_passes(
        commuted,
        SubPixelTranspose(),  # makes convolutions, some with groups, for the passes below
        DilatedAsDense(cpu),  # transposed convolutions of a dilation have become such, too
        WidenGroups(cpu),  # what has one group after this can absorb shuffles
        FoldChannelShuffle(),  # a shuffle left in between would end a run of padded tensors
        ComputedTransposes(),  # makes convolutions for the next pass
        ComputedFilters(),  # makes products for the next pass
        AbsorbTransposes(),  # after FoldLinearOps, which reads matmul calls only
        PlainProducts(cpu),  # what the next pass would pad
        PadChannels(cpu),  # the passes above would work on its zeros too
        PadData(cpu),  # where the pass above could not reach
        AbsorbZeroPoints(),  # near the end: the passes above know conv2d only
        NoteWeightBits(cpu),  # behind every pass that changes weights
        # Layers whose precision is named are whole in the file; else parts gain where a whole one
        # does not. The passes above compute with fp32 weights.
        *((in_half, *parts) if half_layers(mod) else (*parts, in_half)),
    )


def apply_plan(folded: tvm.IRModule, plan: Plan, cpu: Cpu) -> tvm.IRModule:
    """The plan's layouts given to the folded module, transforms that cancel removed.

    The folded module must be the one that the plan's graph was extracted from. AlterOpLayout makes
    the pairs of transforms that EliminateTransforms removes.
    """
    return run_passes(folded, AlterOpLayout(plan, cpu), EliminateTransforms())


def lower_altered(
    altered: tvm.IRModule,
    configs: Mapping[LayoutKey, Config],
    cpu: Cpu,
    groups: GroupBands = APART,
) -> tvm.IRModule:
    """Templates computed, weights packed, epilogues fused, functions scheduled, memory planned."""
    return schedule_module(compute_templates(altered, configs, cpu), cpu, groups)


def compute_templates(
    altered: tvm.IRModule,
    configs: Mapping[LayoutKey, Config],
    cpu: Cpu,
    before: LoweredBefore | None = None,
) -> tvm.IRModule:
    """Fused functions before their schedules: each still says which workload it computes.

    With ``before``, for timing, the weights have any values, and what it knows is not computed.

    Concats are joins of the plan until their layouts are altered. A flat one becomes part of the
    convolution that LowerToTemplates lowers. FuseFunctions lowers and fuses what is left.
    """
    lower = LowerToTemplates(cpu, configs, before)
    return run_passes(altered, FlattenConcats(), lower, FuseFunctions(cpu.cores))


def schedule_module(
    computed: tvm.IRModule,
    cpu: Cpu,
    groups: GroupBands = APART,
    before: ScheduledBefore | None = None,
    at_offset: Sequence[str] = (),
    ready: Callable[[tirx.PrimFunc], None] | None = None,
) -> tvm.IRModule:
    """Every function scheduled; calls in order; activations and workspace placed in one arena.

    The plan's ``groups`` of layers are fused first, while their functions are not scheduled; every
    other layer stays a call of its own. What ``before`` knows is not scheduled again. Networks
    of the names ``at_offset`` take tensors that are rows of others, where they can. ``ready`` may
    compile each function while the next ones are scheduled.

    A function's workspace is known once it is scheduled. OrderCalls thinks of the arena that
    PlanMemory makes of its order. SeparateBranches takes the functions that
    PlanMemory leaves because of their branches.
    """
    return run_passes(
        computed,
        FuseBlocks(cpu, groups, ready, at_offset),
        FusePools(cpu, groups),
        ScheduleFunctions(cpu, before, ready, at_offset),
        OrderCalls(),
        PlanMemory(at_offset),
        SeparateBranches(),
    )
