"""From a folded Relax module to the TVM-free :class:`ConvGraph` that the global search works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.relay_passes.ir.calls import call_workload, op_name, static_shape
from tvm_neocpu.relay_passes.ir.node_identity import IdentityTable
from tvm_neocpu.relay_passes.ir.rebuild import bindings_of, is_straight_line
from tvm_neocpu.relay_passes.layouts.flow import Flow, FlowKind, flow_of, is_feature_map
from tvm_neocpu.topi.table import implementations


@dataclass(frozen=True)
class ExtractConvGraph:
    """The network's layout decisions and the tensors between them; changes nothing.

    A ``main`` with branches or casts has none: it is compiled in the layout it came in.
    """

    name: ClassVar[str] = "extract-conv-graph"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> ConvGraph:
        walk = _Walk(self.cpu)
        func = mod["main"]
        if not is_straight_line(func):
            return ConvGraph((), ())
        for parameter in func.params:
            walk.enter(parameter)
        for var, value in bindings_of(func):
            walk.visit(var, value)
        walk.leave(func.body.body)
        return ConvGraph(tuple(walk.nodes), tuple(walk.edges))


@dataclass
class _Walk:
    """State of one traversal: which node decided each variable's layout."""

    cpu: Cpu
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)
    ids: IdentityTable = field(default_factory=IdentityTable)
    decided_by: dict[relax.Var, str] = field(default_factory=dict)

    def enter(self, parameter: relax.Var) -> None:
        identity = self.ids.add_parameter(parameter)
        if is_feature_map(parameter):
            self._add_boundary(identity, parameter, parameter.name)

    def visit(self, var: relax.Var, value: relax.Expr) -> None:
        identity = self.ids.add(var, value)
        flow = decided_flow(value, self.cpu)
        if flow.kind is FlowKind.FOLLOW:
            self._follow(var, flow.operands[0])
        elif flow.kind is FlowKind.WORKLOAD:
            self._add_workload(identity, var, value, flow)
        elif flow.kind is FlowKind.JOIN:
            self._add_join(identity, var, value, flow)
        elif isinstance(value, relax.Var):
            self._follow(var, value)
        else:
            self._add_boundary(identity, var, op_name(value) or "tuple", value)

    def leave(self, result: relax.Expr) -> None:
        """The function's results leave in plain NCHW."""
        self._add_boundary("output", result, "output", result)

    def _follow(self, var: relax.Var, operand: relax.Expr) -> None:
        if operand in self.decided_by and is_feature_map(var):
            self.decided_by[var] = self.decided_by[operand]

    def _add_workload(self, identity: str, var: relax.Var, value: relax.Expr, flow: Flow) -> None:
        workload = call_workload(value)
        self._add_node(GraphNode(identity, NodeKind.CONV, str(workload), _shape4(var), workload))
        self._connect(identity, flow.operands)
        self.decided_by[var] = identity

    def _add_join(self, identity: str, var: relax.Var, value: relax.Expr, flow: Flow) -> None:
        channels = flow.join_channels
        label = op_name(value).removeprefix("relax.")
        self._add_node(
            GraphNode(identity, NodeKind.JOIN, label, _shape4(var), join_channels=channels)
        )
        self._connect(identity, flow.operands)
        self.decided_by[var] = identity

    def _add_boundary(
        self, identity: str, var: relax.Expr, label: str, value: relax.Expr | None = None
    ) -> None:
        inputs = _variables(value) if value is not None else []
        touched = [operand for operand in inputs if operand in self.decided_by]
        is_map = isinstance(var, relax.Var) and is_feature_map(var) and identity != "output"
        if not touched and not is_map:
            return
        shape = _shape4(var) if is_map else (1, 1, 1, 1)
        self._add_node(GraphNode(identity, NodeKind.BOUNDARY, label.removeprefix("relax."), shape))
        self._connect(identity, touched)
        if is_map:
            self.decided_by[var] = identity

    def _add_node(self, node: GraphNode) -> None:
        self.nodes.append(node)

    def _connect(self, identity: str, operands: object) -> None:
        for operand in operands:  # type: ignore[attr-defined]
            if operand in self.decided_by and is_feature_map(operand):
                tensor = self.ids.of(operand)
                edge = GraphEdge(self.decided_by[operand], identity, _shape4(operand), tensor)
                self.edges.append(edge)


def decided_flow(value: relax.Expr, cpu: Cpu) -> Flow:
    """The flow of an expression, once it is known which workloads our templates accept."""
    flow = flow_of(value)
    if flow.kind is not FlowKind.WORKLOAD:
        return flow
    workload = call_workload(value)
    if workload is None or not implementations(workload, cpu):
        return Flow(FlowKind.BOUNDARY)
    return flow


def _shape4(expr: relax.Expr) -> Shape4:
    shape = static_shape(expr) or ()
    padded = (*shape, 1, 1, 1, 1)[:4]
    return (padded[0], padded[1], padded[2], padded[3])


def _variables(value: relax.Expr) -> list[relax.Var]:
    """The variables that an expression reads, each once."""
    found: dict[relax.Var, None] = {}

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Var):
            found[expr] = None

    relax.analysis.post_order_visit(value, visit)
    return list(found)
