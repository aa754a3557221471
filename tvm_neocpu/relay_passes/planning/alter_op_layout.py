"""Give every convolution the layouts that the plan chose, and let layouts flow between them.

NeoCPU, section 3.2: transforms are nodes of the graph, inserted only where producer and consumer
disagree. Feature maps are stored differently; weights stay OIHW until a template packs them::

    y = relu(conv2d(x, W))            x1 = layout_transform(x)      # NCHW -> NCHW16c
    z = conv2d(y, V)           ->     y1 = relu(conv2d(x1, W))      # NCHW16c -> NCHW32c
    return z                          z1 = conv2d(y1, V)            # NCHW32c -> NCHW32c
                                      return layout_transform(z1)   # NCHW32c -> NCHW
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.errors import PlanError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.relay_passes.ir.exprs import over_variables, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.layouts.flow import BlockedOperands, Flow, FlowKind, is_feature_map
from tvm_neocpu.relay_passes.layouts.node_identity import identities_of
from tvm_neocpu.relay_passes.layouts.table import blocked_call, decided_flow
from tvm_neocpu.relay_passes.operators.layout_transform import transform
from tvm_neocpu.relay_passes.operators.table import read_decision


@dataclass(frozen=True)
class AlterOpLayout:
    """Apply a plan: ``plan.configs`` and ``plan.joins`` by node identity.

    A join that the plan does not name takes the layout that most of its bytes have already. Raises
    PlanError if the plan has no entry for a convolution of the module.

    Needs: the module that the plan's graph was extracted from; feature maps are plain NCHW.
    Leaves: parameters, results and tensors between regions in plain NCHW, the rest in the plan's
    layouts, with transforms between them that are explicit calls.
    """

    name: ClassVar[str] = "alter-op-layout"
    plan: Plan
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        ids = identities_of(mod)
        return rewrite_regions(mod, lambda scope: _Rewriter(self.plan, self.cpu, ids, scope).run())


@dataclass(frozen=True)
class _Stored:
    """A feature map of the new module, and its layout."""

    expr: relax.Expr
    layout: Layout


@dataclass
class _Rewriter:
    """One region: the new feature maps by old variables, and the transforms emitted so far."""

    plan: Plan
    cpu: Cpu
    ids: Mapping[relax.Var, str]
    scope: Scope
    stored: dict[relax.Var, _Stored] = field(default_factory=dict)
    transformed: dict[tuple[relax.Var, Layout], relax.Expr] = field(default_factory=dict)

    def run(self) -> None:
        for binding in self.scope.region.bindings:
            self.stored[binding.var] = self._altered(self.ids[binding.var], binding.value)
        for var in self.scope.region.outputs:
            self.scope.bind(var, self.in_layout(var, NCHW))

    def _altered(self, identity: str, value: relax.Expr) -> _Stored:
        flow = decided_flow(value, self.cpu)
        if flow.kind is FlowKind.WORKLOAD and flow.operands:
            return self._workload(identity, value)
        if flow.kind is FlowKind.FOLLOW:
            return self._follow(value, flow)
        if flow.kind is FlowKind.JOIN:
            return self._join(identity, value, flow)
        if isinstance(value, relax.Var):
            return self._stored(value)
        plain = over_variables(value, lambda variable: self.in_layout(variable, NCHW))
        return _Stored(self.scope.emit(plain), NCHW)

    def _workload(self, identity: str, call: relax.Call) -> _Stored:
        """A call whose feature maps are stored as its config reads them."""
        found = read_decision(call)
        assert found is not None and found[0].alter is not None
        form, workload = found
        before, after = layouts_of(_config_of(self.plan.configs, identity, workload))
        tensors = [
            self._workload_operand(operand, tensor, before)
            for operand, tensor in zip(workload.operands, form.tensors(call), strict=True)
        ]
        return _Stored(self.scope.emit(form.alter(call, tensors, before, after)), after)

    def _workload_operand(self, operand: Operand, tensor: relax.Expr, before: Layout) -> relax.Expr:
        if not isinstance(tensor, relax.Var):
            return tensor
        return self.in_layout(tensor, before if operand.role is Role.FEATURE_MAP else NCHW)

    def _follow(self, call: relax.Call, flow: Flow) -> _Stored:
        (operand,) = flow.operands
        layout = self._stored(operand).layout
        operands = BlockedOperands(
            flow.operands, [self._stored(operand).expr], layout, self.scope.emit
        )
        result = self.scope.emit(blocked_call(call, operands))
        return _Stored(result, layout if is_feature_map(call) else NCHW)

    def _join(self, identity: str, call: relax.Call, flow: Flow) -> _Stored:
        layout = self.plan.joins.get(identity) or self._majority(flow)
        stored = [self._join_operand(operand, layout) for operand in flow.operands]
        operands = BlockedOperands(flow.operands, stored, layout, self.scope.emit)
        return _Stored(self.scope.emit(blocked_call(call, operands)), layout)

    def _join_operand(self, operand: relax.Expr, layout: Layout) -> relax.Expr:
        # A single channel broadcasts over a block: it is stored as NCHW1c there.
        narrow = static_shape(operand)[1] == 1 and layout.is_blocked
        return self.in_layout(operand, Layout(1) if narrow else layout)

    def _majority(self, flow: Flow) -> Layout:
        """The layout that most bytes have, among the layouts that fit every operand."""
        votes: dict[Layout, int] = {}
        for operand in flow.operands:
            layout = self._stored(operand).layout
            if all(layout.fits(channels) for channels in flow.join_channels):
                batch, channels, height, width = static_shape(operand)
                votes[layout] = votes.get(layout, 0) + batch * channels * height * width
        return max(votes, key=lambda layout: votes[layout]) if votes else NCHW

    def in_layout(self, operand: relax.Var, layout: Layout) -> relax.Expr:
        """The operand stored in ``layout``; readers in the same layout share one transform."""
        stored = self._stored(operand)
        if stored.layout == layout:
            return stored.expr
        if (operand, layout) not in self.transformed:
            moved = transform(stored.expr, static_shape(operand), stored.layout, layout)
            self.transformed[operand, layout] = self.scope.emit(moved)
        return self.transformed[operand, layout]

    def _stored(self, var: relax.Var) -> _Stored:
        """The variable's new form; a variable from outside the region is plain."""
        return self.stored.get(var) or _Stored(var, NCHW)


def _config_of(configs: Mapping[str, Config], identity: str, workload: Workload) -> Config:
    config = configs.get(identity)
    if config is None:
        raise PlanError(f"the plan has no entry for {workload} (node {identity})")
    return config
