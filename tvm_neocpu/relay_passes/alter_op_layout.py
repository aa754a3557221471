"""Give every convolution the blocked layout that its plan chose, and let layouts flow between them.

NeoCPU, section 3.2: transforms are nodes of the graph, inserted only where producer and consumer
disagree. Feature maps change; weights stay OIHW until a template packs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import PlanError
from tvm_neocpu.core.layout import NCHW, Layout
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.relay_passes.extract_conv_graph import decided_flow
from tvm_neocpu.relay_passes.ir.calls import call_workload, static_shape
from tvm_neocpu.relay_passes.ir.node_identity import IdentityTable
from tvm_neocpu.relay_passes.ir.rebuild import Emit, over_variables, rebuild_main
from tvm_neocpu.relay_passes.layouts.blocked_calls import (
    blocked_conv2d,
    blocked_follow,
    blocked_join,
)
from tvm_neocpu.relay_passes.layouts.flow import Flow, FlowKind, is_feature_map
from tvm_neocpu.relay_passes.layouts.transform import transform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


@dataclass(frozen=True)
class AlterOpLayout:
    """Apply a plan: ``plan.configs`` and ``plan.joins`` by node identity.

    Raises PlanError where a convolution of the module has no entry in the plan. A join that the
    plan does not name takes the layout of most of its bytes.
    """

    name: ClassVar[str] = "alter-op-layout"
    plan: Plan
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        rewriter = _Rewriter(self.plan, self.cpu)
        for parameter in mod["main"].params:
            rewriter.enter(parameter)
        return rebuild_main(mod, rewriter.visit, rewriter.plain_result)


@dataclass(frozen=True)
class _Stored:
    """A rebuilt feature map and how it is stored."""

    expr: relax.Expr
    layout: Layout


@dataclass
class _Rewriter:
    plan: Plan
    cpu: Cpu
    ids: IdentityTable = field(default_factory=IdentityTable)
    stored: dict[relax.Var, _Stored] = field(default_factory=dict)
    transformed: dict[tuple[relax.Var, Layout], relax.Expr] = field(default_factory=dict)

    def enter(self, parameter: relax.Var) -> None:
        self.ids.add_parameter(parameter)
        self.stored[parameter] = _Stored(parameter, NCHW)

    def visit(self, var: relax.Var, value: relax.Expr, emit: Emit) -> None:
        identity = self.ids.add(var, value)
        flow = decided_flow(value, self.cpu)
        if flow.kind is FlowKind.WORKLOAD and isinstance(call_workload(value), ConvWorkload):
            self.stored[var] = self._conv(identity, value, emit)
        elif flow.kind is FlowKind.FOLLOW:
            self.stored[var] = self._follow(value, flow, emit)
        elif flow.kind is FlowKind.JOIN:
            self.stored[var] = self._join(identity, value, flow, emit)
        elif isinstance(value, relax.Var):
            self.stored[var] = self.stored[value]
        else:
            self.stored[var] = _Stored(emit(self._plain(value, emit)), NCHW)

    def plain_result(self, result: relax.Expr, emit: Emit) -> relax.Expr:
        return self._plain(result, emit)

    def _conv(self, identity: str, call: relax.Call, emit: Emit) -> _Stored:
        config = _config_of(self.plan.configs, identity, call)
        after = Layout(config.oc_bn)
        before = Layout(config.ic_bn)
        data = self.in_layout(call.args[0], before, emit)
        return _Stored(emit(blocked_conv2d(call, data, before, after)), after)

    def _follow(self, call: relax.Call, flow: Flow, emit: Emit) -> _Stored:
        operand = flow.operands[0]
        layout = self.stored[operand].layout
        data = self.stored[operand].expr
        result = emit(blocked_follow(call, operand, data, layout, emit))
        return _Stored(result, layout if is_feature_map(call) else NCHW)

    def _join(self, identity: str, call: relax.Call, flow: Flow, emit: Emit) -> _Stored:
        layout = self.plan.joins.get(identity) or self._majority(flow)
        operands = [self._join_operand(operand, layout, emit) for operand in flow.operands]
        return _Stored(emit(blocked_join(call, flow.operands, operands, layout)), layout)

    def _join_operand(self, operand: relax.Expr, layout: Layout, emit: Emit) -> relax.Expr:
        # A single channel broadcasts over a block: it is stored as NCHW1c there.
        narrow = static_shape(operand)[1] == 1 and layout.is_blocked
        return self.in_layout(operand, Layout(1) if narrow else layout, emit)

    def _majority(self, flow: Flow) -> Layout:
        """The layout that most bytes have already, among those every operand can take."""
        votes: dict[Layout, int] = {}
        for operand in flow.operands:
            layout = self.stored[operand].layout
            if all(layout.fits(channels) for channels in flow.join_channels):
                batch, channels, height, width = static_shape(operand)
                votes[layout] = votes.get(layout, 0) + batch * channels * height * width
        return max(votes, key=lambda layout: votes[layout]) if votes else NCHW

    def in_layout(self, operand: relax.Var, layout: Layout, emit: Emit) -> relax.Expr:
        """The operand stored in ``layout``; consumers that want the same share one transform."""
        stored = self.stored[operand]
        if stored.layout == layout:
            return stored.expr
        if (operand, layout) not in self.transformed:
            moved = transform(stored.expr, static_shape(operand), stored.layout, layout)
            self.transformed[operand, layout] = emit(moved)
        return self.transformed[operand, layout]

    def _plain(self, value: relax.Expr, emit: Emit) -> relax.Expr:
        """The expression with every variable replaced by its plain NCHW form."""

        def plain(variable: relax.Var) -> relax.Expr:
            known = variable in self.stored
            return self.in_layout(variable, NCHW, emit) if known else variable

        return over_variables(value, plain)


def _config_of(configs: Mapping[str, Config], identity: str, call: relax.Call) -> Config:
    config = configs.get(identity)
    if config is None:
        raise PlanError(f"the plan has no entry for {call_workload(call)} (node {identity})")
    return config
