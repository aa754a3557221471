"""How layouts flow through every operation: one table of rules, and the operators' forms."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.workload import Role, Workload
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.layouts import elementwise, moves, windows
from tvm_neocpu.relay_passes.layouts.flow import (
    BOUNDARY,
    BlockedOperands,
    Flow,
    FlowKind,
    LayoutRule,
    is_feature_map,
    same_call,
)
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.table import is_computed_by_template, read_decision

RULES: dict[str, LayoutRule] = {**elementwise.RULES, **windows.RULES, **moves.RULES}


def flow_of(call: relax.Expr) -> Flow:
    """Classify one bound expression of a module whose feature maps are plain NCHW."""
    found = read_decision(call)
    if found is not None:
        return _workload_flow(call, *found)
    rule = RULES.get(op_name(call))
    flow = BOUNDARY if rule is None else rule.flow(call)
    # A constant is stored as it was imported: it has no layout to hand on.
    of_variables = all(isinstance(operand, relax.Var) for operand in flow.operands)
    return flow if of_variables else BOUNDARY


def decided_flow(value: relax.Expr, cpu: Cpu) -> Flow:
    """The flow of an expression, once it is known which workloads templates take on this CPU."""
    found = read_decision(value)
    if found is not None and not is_computed_by_template(found[1], cpu):
        return BOUNDARY
    return flow_of(value)


def blocked_call(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    """A following or joining operation over operands that are all stored in one layout."""
    rule = RULES[op_name(call)]
    # In plain NCHW it is the same call; a concat's operands are the fields of a tuple.
    plain = not operands.layout.is_blocked and not isinstance(call.args[0], relax.Tuple)
    return same_call(call, operands) if plain else rule.blocked(call, operands)


def _workload_flow(call: relax.Call, form: CallForm, workload: Workload) -> Flow:
    """Feature maps in the chosen layout, and what a choice of layouts leaves plain."""
    pairs = list(zip(workload.operands, form.tensors(call), strict=True))
    maps = tuple(t for operand, t in pairs if operand.role is Role.FEATURE_MAP)
    plain = tuple(
        (operand.name, tensor)
        for operand, tensor in pairs
        if operand.role is Role.PLAIN and isinstance(tensor, relax.Var) and is_feature_map(tensor)
    )
    if not all(isinstance(tensor, relax.Var) for tensor in maps):
        return BOUNDARY
    return Flow(FlowKind.WORKLOAD, maps, plain=plain)
