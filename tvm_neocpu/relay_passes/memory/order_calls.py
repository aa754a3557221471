"""The order of a network's calls, chosen for the smallest arena.

The importer lists operations as the file does. Where branches meet late (NASNet's cells, RandWire's
stages) another order keeps less alive; `scheduling.orders` looks for it. The arena that PlanMemory
would make decides: the order changes only where its arena is smaller. That sums lie over residuals
(:mod:`.over_operands`) is not known yet.

    a = wide(x)                  a = wide(x)
    b = wide(y)          ->      c = narrow(a)      a is free before b is made
    c = narrow(a)                b = wide(y)
    d = narrow(b)                d = narrow(b)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, GlobalVar
from tvm.relax import Function, Var, VarBinding

from tvm_neocpu.core.arena import Lifetime, largest_live_set, place_tightly
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, static_shape, variables
from tvm_neocpu.relay_passes.ir.regions import relax_functions
from tvm_neocpu.relay_passes.memory.explicit import RESHAPE
from tvm_neocpu.scheduling.graph.live import lifetimes, peak_bytes, step_bound, workspaces
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.orders.best import LOOKS, best
from tvm_neocpu.scheduling.orders.file_order import file_order
from tvm_neocpu.topi.tir.functions.memory_params import takes_memory_params, workspaces_of

# Looks of the search, of about a microsecond each, for a byte that an order may save.
LOOKS_A_BYTE = 4


@dataclass(frozen=True)
class OrderCalls:
    """Reorder the calls of each straight-line network, so that its arena is as small as it can.

    Needs: functions are scheduled, so that their workspace is known. PlanMemory has not run.
    Leaves: the same bindings in another order; a network whose arena would not shrink as it was.
    """

    name: ClassVar[str] = "order-calls"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        # What PlanMemory will see: reshapes that share memory with their source.
        viewed = relax.transform.RewriteDataflowReshape()(mod)
        networks = relax_functions(viewed)
        straight = [(name, func) for name, func in networks if _is_straight(viewed, func)]
        named = {name for name, _ in straight}
        others = [func for name, func in networks if name not in named]
        fixed = frozenset(callee for func in others for callee in _called(func))
        result = viewed.clone()
        changed = False
        for name, func in straight:
            reordered = _reordered(viewed, func, fixed)
            if reordered is not None:
                result.update_func(name, reordered)
                changed = True
        return relax.transform.Normalize()(result) if changed else mod


def arena_graph(
    mod: tvm.IRModule, function: Function, fixed: Collection[str] = ()
) -> tuple[ScheduleGraph, list[list[VarBinding]]]:
    """What PlanMemory's arena holds of a straight-line function, and the bindings of each node.

    A binding that shares memory with what it reads belongs to the node of its source. What the
    arena does not hold has no bytes. ``fixed`` are functions whose parameters must stay.
    """
    (block,) = function.body.blocks
    units: list[list[VarBinding]] = []
    owners: dict[Var, int] = {}
    kept = {*variables(function.body.body)}
    for binding in block.bindings:
        source = _shared(binding.value)
        if source in owners:
            owners[binding.var] = owners[source]
            units[owners[source]].append(binding)
            continue
        owners[binding.var] = len(units)
        units.append([binding])
        callee = _callee(binding.value)
        if not callee or callee in fixed or not takes_memory_params(mod[callee]):
            kept |= {binding.var, *variables(binding.value)}
    outside = {owners[var] for var in kept if var in owners}
    nodes = [_node(mod, at, unit[0], at in outside) for at, unit in enumerate(units)]
    edges = [
        (str(owners[var]), str(at))
        for at, unit in enumerate(units)
        for var in variables(unit[0].value)
        if var in owners
    ]
    return ScheduleGraph(tuple(nodes), tuple(edges)), units


def arena_lifetimes(graph: ScheduleGraph, order: Sequence[int]) -> tuple[Lifetime, ...]:
    """Everything that the arena holds when the calls run in that order."""
    return *lifetimes(graph, order), *workspaces(graph, order)


def _reordered(mod: tvm.IRModule, function: Function, fixed: Collection[str]) -> Function | None:
    """The function in a better order; ``None`` where there is none."""
    graph, units = arena_graph(mod, function, fixed)
    today = file_order(graph)
    at_stake = peak_bytes(graph, today) - step_bound(graph)
    order = best(graph, min(LOOKS, LOOKS_A_BYTE * at_stake))
    if _peak(graph, order) >= _peak(graph, today) or _arena(graph, order) >= _arena(graph, today):
        return None
    bindings = [binding for at in order for binding in units[at]]
    old = function.body
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], old.body, old.span)
    return Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )


def _peak(graph: ScheduleGraph, order: Sequence[int]) -> int:
    return largest_live_set(arena_lifetimes(graph, order))


def _arena(graph: ScheduleGraph, order: Sequence[int]) -> int:
    return place_tightly(arena_lifetimes(graph, order))[1]


def _is_straight(mod: tvm.IRModule, function: Function) -> bool:
    """Whether it is one block of what PlanMemory plans: calls of PrimFuncs, views, tuples."""
    blocks = function.body.blocks
    return (
        len(blocks) == 1
        and isinstance(blocks[0], relax.DataflowBlock)
        and all(_is_plain(mod, binding) for binding in blocks[0].bindings)
    )


def _is_plain(mod: tvm.IRModule, binding: relax.Binding) -> bool:
    if not isinstance(binding, VarBinding):
        return False
    value = binding.value
    if isinstance(value, Call):
        callee = _callee(value)
        is_function = bool(callee) and isinstance(mod[callee], tirx.PrimFunc)
        return is_function or op_name(value) == RESHAPE
    return isinstance(value, Var | GenericConst | relax.Tuple | relax.TupleGetItem)


def _called(function: Function) -> set[str]:
    """The names of all functions that a function calls."""
    found: set[str] = set()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, GlobalVar):
            found.add(str(expr.name_hint))

    relax.analysis.post_order_visit(function, visit)
    return found


def _callee(value: relax.Expr) -> str:
    """The name of the function that a ``call_tir`` calls; ``""`` for anything else."""
    return str(value.args[0].name_hint) if op_name(value) == CALL_TIR else ""


def _shared(value: relax.Expr) -> Var | None:
    """The variable whose memory the value shares, if it is a view or another name."""
    source = value.args[0] if op_name(value) == RESHAPE else value
    return source if isinstance(source, Var) else None


def _node(mod: tvm.IRModule, at: int, binding: VarBinding, is_outside: bool) -> ScheduleNode:
    callee = _callee(binding.value)
    work = sum(space.size for space in workspaces_of(mod[callee])) if callee else 0
    return ScheduleNode(
        str(at),
        callee or str(binding.var.name),
        OpKind.BOUNDARY,
        0 if is_outside else _bytes(binding.var),
        work_bytes=work,
    )


def _bytes(var: Var) -> int:
    """Bytes of a tensor of static shape; of anything else none."""
    shape = static_shape(var)
    return 0 if shape is None else prod(shape) * item_bytes(str(var.ty.dtype))
