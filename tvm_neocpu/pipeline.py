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

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import Coverage, OnFallback, tell
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import GroupBands
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.global_search.network.choose import choose_layouts
from tvm_neocpu.relay_passes.channels.fold_channel_shuffle import FoldChannelShuffle
from tvm_neocpu.relay_passes.channels.mark_channel_moves import MarkChannelMoves
from tvm_neocpu.relay_passes.channels.pad_channels import PadChannels
from tvm_neocpu.relay_passes.channels.pad_depthwise import PadDepthwise
from tvm_neocpu.relay_passes.channels.widen_groups import WidenGroups
from tvm_neocpu.relay_passes.convolutions.absorb_transposes import AbsorbTransposes
from tvm_neocpu.relay_passes.convolutions.computed_filters import ComputedFilters
from tvm_neocpu.relay_passes.convolutions.computed_transposes import ComputedTransposes
from tvm_neocpu.relay_passes.convolutions.dilated_as_dense import DilatedAsDense
from tvm_neocpu.relay_passes.convolutions.plain_products import PlainProducts
from tvm_neocpu.relay_passes.convolutions.sub_pixel_transpose import SubPixelTranspose
from tvm_neocpu.relay_passes.folding.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.fusing.fuse_blocks import FuseBlocks
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.fusing.fuse_pools import FusePools
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.layouts.flatten_concats import FlattenConcats
from tvm_neocpu.relay_passes.linear.fold_linear_ops import FoldLinearOps
from tvm_neocpu.relay_passes.linear.fold_parallel_branches import FoldParallelBranches
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LayoutKey, LowerToTemplates
from tvm_neocpu.relay_passes.lowering.lowered_before import LoweredBefore
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.lowering.waking_threads import (
    gains_less_than_waking,
    may_be_small,
    on_one_core,
)
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
from tvm_neocpu.tuning.candidates import candidates_of, usable_plan
from tvm_neocpu.tuning.database.history import History, current_history
from tvm_neocpu.tuning.group_candidates import groups_of, with_groups
from tvm_neocpu.tuning.shared_weights import sharing_schemes
from tvm_neocpu.tuning.sweep_costs import SweepCosts
from tvm_neocpu.tuning.transform_costs import TransformCosts

Schemes = Mapping[Workload, Sequence[Candidate]]
# No groups: each layer is a function of its own.
APART: GroupBands = MappingProxyType({})
# Against direct fp32 layers: Winograd leaves a fifth of the products, bytes go four at a time.
MOST_SAVED = 20


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
    plan = choose_plan(graph, cpu, history)
    if fallback != "ignore":
        warn_if_slow(graph, plan, coverage, cpu)
    alone = one_core_plan(folded, graph, plan.seconds, coverage, cpu, history)
    if alone is not None:
        return PlannedNetwork(folded, graph, alone, on_one_core=True)
    shared = sharing_plan(graph, models, cpu, history) if models else None
    if shared is not None and shared.seconds <= plan.seconds * sharing_may_cost:
        return PlannedNetwork(folded, graph, shared, True, coverage.fixed_seconds)
    return PlannedNetwork(folded, graph, plan, beside=coverage.fixed_seconds)


def compute(network: PlannedNetwork, cpu: Cpu) -> tvm.IRModule:
    """The planned network's functions, fused and not scheduled yet."""
    cpu = cpu.with_cores(1) if network.on_one_core else cpu
    altered = apply_plan(network.folded, network.plan, cpu)
    computed = compute_templates(altered, network.plan.by_layout(network.graph), cpu)
    return on_one_core(computed) if network.on_one_core else computed


def fold(mod: tvm.IRModule, cpu: Cpu, in_place: bool = False) -> tvm.IRModule:
    """Constants evaluated, importer's detours straightened, linear operations folded (CDUCA).

    With ``in_place`` folded weights take the memory of the module's own, which is of no use then.
    """
    mod = run_passes(
        mod,
        FoldConstants(),  # first: every pass below looks for constants
        ConvsOverImages(),  # all passes below know convolutions of two axes only
        Canonicalize(),  # merges the reshapes and places the padding that the next two read
    )
    if is_quantized(mod):
        # After Canonicalize, which spells clips and pads alike; before all that rewrites
        # convolutions of floats. What it leaves in floats gets constants, for the first passes.
        mod = run_passes(mod, IntegerOperators(), FoldConstants(), Canonicalize())
    return run_passes(
        mod,
        MarkChannelMoves(),  # finds the shuffles that FoldChannelShuffle absorbs
        FoldParallelBranches(),  # its convolutions may fold with what follows the sum
        FoldLinearOps(in_place),  # while batch norms stand next to transposed convolutions
        SubPixelTranspose(),  # makes convolutions, some with groups, for the passes below
        DilatedAsDense(cpu),  # transposed convolutions of a dilation have become such, too
        WidenGroups(cpu),  # what has one group after this can absorb shuffles
        FoldChannelShuffle(),  # a shuffle left in between would end a run of padded tensors
        ComputedTransposes(),  # makes convolutions for the next pass
        ComputedFilters(),  # makes products for the next pass
        AbsorbTransposes(),  # after FoldLinearOps, which reads matmul calls only
        PlainProducts(cpu),  # what the next pass would pad
        PadChannels(cpu),  # the passes above would work on its zeros too
        PadDepthwise(cpu),  # those that the pass above could not reach
        AbsorbZeroPoints(),  # near the end: the passes above know conv2d only
        NoteWeightBits(cpu),  # behind every pass that changes weights
        StoreHalfWeights(cpu),  # last: the passes above compute with fp32 weights
    )


def choose_plan(graph: ConvGraph, cpu: Cpu, history: History | None = None) -> Plan:
    """The history's plan if it is for this graph, else a search over its records and the model."""
    history = history or current_history(cpu)
    logged = usable_plan(history.plan(graph), graph, cpu)
    return search_plan(graph, cpu, history) if logged is None else with_groups(logged, graph, cpu)


def one_core_plan(
    folded: tvm.IRModule,
    graph: ConvGraph,
    together: float,
    coverage: Coverage,
    cpu: Cpu,
    history: History,
) -> Plan | None:
    """The plan for one core, where all cores save less of the network than waking them takes.

    ``together``: the predicted seconds on all cores. ``None`` where they save more, where a log has
    a plan, and where predictions do not cover all.
    """
    known = history.plan(graph) is None and not (coverage.fallbacks or coverage.fixed)
    if not known or not may_be_small(together, cpu):
        return None
    one = cpu.with_cores(1)
    alone = choose_plan(graph, one, current_history(one))
    return alone if gains_less_than_waking(folded, together, alone.seconds, cpu) else None


def runs_on_one_core(folded: tvm.IRModule, graph: ConvGraph, cpu: Cpu) -> bool:
    """Whether a build compiles the folded network for one core, by the logs in force."""
    operations = sum(workload.flops for workload in graph.workloads)
    at_peak = operations / MOST_SAVED / (cpu.peak_gflops("float32") * 1e9 * cpu.cores)
    if not may_be_small(at_peak, cpu):
        return False
    history, coverage = current_history(cpu), FindFallbacks(cpu)(folded)
    together = choose_plan(graph, cpu, history).seconds
    return one_core_plan(folded, graph, together, coverage, cpu, history) is not None


def search_plan(
    graph: ConvGraph, cpu: Cpu, history: History, time_limit: float | None = None
) -> Plan:
    """The global search over what is known, in at most ``time_limit`` seconds (None: no limit)."""
    schemes, *prices = known_costs(graph, cpu, history)
    groups = groups_of(graph, schemes, cpu)
    return choose_layouts(graph, schemes, *prices, time_limit=time_limit, groups=groups)


def sharing_plan(
    graph: ConvGraph, models: Sequence[PlannedNetwork], cpu: Cpu, history: History
) -> Plan | None:
    """The fastest plan with the packed weights of one of the models; ``None`` if none has any."""
    candidates, *prices = known_costs(graph, cpu, history)
    plans = []
    for model in models:
        schemes = sharing_schemes(graph, (model.graph, model.plan), candidates, cpu)
        if schemes is not None:
            groups = groups_of(graph, schemes, cpu)
            plans.append(choose_layouts(graph, schemes, *prices, groups=groups))
    return min(plans, key=lambda plan: plan.seconds, default=None)


def known_costs(
    graph: ConvGraph, cpu: Cpu, history: History
) -> tuple[Schemes, TransformCosts, SweepCosts]:
    """Schemes, transforms, sweeps with their times: measured, the cost model's where none was."""
    prices = TransformCosts.from_records(cpu, history.transforms(graph))
    sweeps = SweepCosts.from_records(cpu, history.sweeps(graph))
    tried = history.tried(graph.workloads)
    return candidates_of(graph, cpu, tried, prices, sweeps), prices, sweeps


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
    return run_passes(altered, FlattenConcats(), lower, FuseFunctions())


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
