"""Read the TVM-free :class:`ConvGraph`, which the global search works on, from a Relax module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import (
    ConvGraph,
    GraphEdge,
    GraphNode,
    NodeKind,
    Shape4,
    Sweep,
)
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape4, variables
from tvm_neocpu.relay_passes.ir.regions import Region, regions_of, relax_functions
from tvm_neocpu.relay_passes.layouts.flow import Flow, FlowKind, is_feature_map
from tvm_neocpu.relay_passes.layouts.node_identity import identities_of
from tvm_neocpu.relay_passes.layouts.table import decided_flow
from tvm_neocpu.relay_passes.operators.table import read_decision
from tvm_neocpu.relay_passes.planning.sweeps import Sweeps, sweeps_of

# The shape of a boundary node without a feature map as its result.
NO_MAP: Shape4 = (1, 1, 1, 1)


@dataclass(frozen=True)
class ExtractConvGraph:
    """The network's layout decisions and the tensors between them; the module is not changed.

    There is one graph for all Relax functions, because one plan is applied to all of them. Regions
    are components of the graph: tensors between regions are plain NCHW, so that a region begins and
    ends at boundary nodes. A convolution counts once, whether its function is called often or not
    at all.

    Needs: the module is folded, because identities are hashes of the folded operations; feature
    maps are plain NCHW.
    Leaves: the module as it was. Node identities are those that :class:`AlterOpLayout` looks up in
    the plan.
    """

    name: ClassVar[str] = "extract-conv-graph"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> ConvGraph:
        walk = _Walk(self.cpu, identities_of(mod))
        for _, function in relax_functions(mod):
            walk.begin(function.params)
            for region in regions_of(function):
                walk.visit_region(region)
        return ConvGraph(tuple(map(walk.with_sweeps, walk.nodes)), tuple(walk.edges), walk.flows())


@dataclass
class _Walk:
    """State of one traversal; ``decided_by`` maps a variable to the node that decides its layout.

    It has the variables of the region that is being visited. ``tensors`` has the names of tensors
    that enter a region. ``sweeps`` has those of each node, ``read_sweeps`` those that it reads
    through. ``squeezed`` are followers that are no feature maps any more: means without axes.
    ``behind`` has the last nodes before each variable, ``uses`` all pairs of such a node and one
    that reads the variable.
    """

    cpu: Cpu
    ids: Mapping[relax.Var, str]
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)
    decided_by: dict[relax.Var, str] = field(default_factory=dict)
    tensors: dict[relax.Var, str] = field(default_factory=dict)
    numbered: Counter[str] = field(default_factory=Counter)
    squeezed: dict[relax.Var, str] = field(default_factory=dict)
    sweeps: dict[str, list[Sweep]] = field(default_factory=dict)
    read_sweeps: dict[str, tuple[Sweep, ...]] = field(default_factory=dict)
    behind: dict[relax.Var, tuple[str, ...]] = field(default_factory=dict)
    uses: list[tuple[str, str]] = field(default_factory=list)

    def flows(self) -> tuple[tuple[str, str], ...]:
        """The uses that no edge shows."""
        shown = {(edge.src, edge.dst) for edge in self.edges}
        return tuple(use for use in dict.fromkeys(self.uses) if use not in shown)

    def with_sweeps(self, node: GraphNode) -> GraphNode:
        """The node with the sweeps that were found for it since."""
        own, read = tuple(self.sweeps.get(node.id, ())), self.read_sweeps.get(node.id, ())
        return replace(node, sweeps=own, read_sweeps=read) if own or read else node

    def begin(self, parameters: Sequence[relax.Var]) -> None:
        """A new function; its first region reads the parameters."""
        self.decided_by.clear()
        self.behind.clear()
        for parameter in parameters:
            if is_feature_map(parameter):
                self._add_source(self.ids[parameter], parameter, parameter.name)
                self.behind[parameter] = (self.ids[parameter],)

    def visit_region(self, region: Region) -> None:
        for var in region.inputs:
            self._enter(var)
        for binding in region.bindings:
            count = len(self.nodes)
            self._visit(binding.var, binding.value)
            self._use(binding.var, binding.value, is_node=len(self.nodes) > count)
        self._take_sweeps(sweeps_of(region, self.cpu))
        self._leave(region.outputs)

    def _take_sweeps(self, found: Sweeps) -> None:
        """Give each sweep to the node that decides the layout it runs in."""
        for var, sweep in found.own.items():
            node = self.decided_by.get(var) or self.squeezed.get(var)
            if node is not None:
                self.sweeps.setdefault(node, []).append(sweep)
        for var, read in found.read.items():
            self.read_sweeps[self.ids[var]] = read

    def _use(self, var: relax.Var, value: relax.Expr, is_node: bool) -> None:
        """Note whose results a node uses; what is no node hands them on."""
        reads = variables(value)
        behind = tuple(dict.fromkeys(node for read in reads for node in self.behind.get(read, ())))
        self.behind[var] = (self.ids[var],) if is_node else behind
        if is_node:
            self.uses += [(node, self.ids[var]) for node in behind]

    def _enter(self, var: relax.Var) -> None:
        """A tensor from another region, which enters in plain NCHW."""
        if is_feature_map(var) and var not in self.decided_by:
            identity = self._unique(f"{self.ids[var]}-in")
            self.tensors[var] = identity
            self._add_source(identity, var, var.name)
            self.uses += [(node, identity) for node in self.behind.get(var, ())]
            self.behind[var] = (identity,)

    def _leave(self, outputs: Sequence[relax.Var]) -> None:
        """The tensors that other regions or the function's caller read leave in plain NCHW."""
        touched = [var for var in outputs if var in self.decided_by]
        if touched:
            identity = self._unique("output")
            self.nodes.append(GraphNode(identity, NodeKind.BOUNDARY, "output", NO_MAP))
            self._connect(identity, touched)
        self.decided_by.clear()

    def _visit(self, var: relax.Var, value: relax.Expr) -> None:
        flow = decided_flow(value, self.cpu)
        if flow.kind is FlowKind.FOLLOW:
            self._follow(var, flow.operands[0])
        elif flow.kind is FlowKind.WORKLOAD:
            self._add_workload(var, value, flow)
        elif flow.kind is FlowKind.JOIN:
            self._add_join(var, value, flow)
        elif isinstance(value, relax.Var):
            self._follow(var, value)
        else:
            self._add_boundary(var, value)

    def _follow(self, var: relax.Var, operand: relax.Expr) -> None:
        if operand in self.decided_by:
            followers = self.decided_by if is_feature_map(var) else self.squeezed
            followers[var] = self.decided_by[operand]

    def _add_workload(self, var: relax.Var, value: relax.Expr, flow: Flow) -> None:
        found = read_decision(value)
        assert found is not None
        _, workload = found
        node = GraphNode(self.ids[var], NodeKind.CONV, str(workload), static_shape4(var), workload)
        self._add_deciding(node, var, flow)
        for name, tensor in flow.plain:
            # A tensor that every choice reads in plain NCHW ends in a boundary of its own.
            boundary = GraphNode(f"{node.id}-{name}", NodeKind.BOUNDARY, name, NO_MAP)
            self.nodes.append(boundary)
            self._connect(boundary.id, [tensor])

    def _add_join(self, var: relax.Var, value: relax.Expr, flow: Flow) -> None:
        label, channels = op_name(value).removeprefix("relax."), flow.join_channels
        node = GraphNode(
            self.ids[var], NodeKind.JOIN, label, static_shape4(var), join_channels=channels
        )
        self._add_deciding(node, var, flow)

    def _add_deciding(self, node: GraphNode, var: relax.Var, flow: Flow) -> None:
        self.nodes.append(node)
        self._connect(node.id, flow.operands)
        self.decided_by[var] = node.id

    def _add_boundary(self, var: relax.Var, value: relax.Expr) -> None:
        """An operation that works on plain NCHW only, if a feature map goes in or out."""
        touched = [read for read in dict.fromkeys(variables(value)) if read in self.decided_by]
        label = (op_name(value) or "tuple").removeprefix("relax.")
        if is_feature_map(var):
            self._add_source(self.ids[var], var, label)
        elif touched:
            self.nodes.append(GraphNode(self.ids[var], NodeKind.BOUNDARY, label, NO_MAP))
        self._connect(self.ids[var], touched)

    def _add_source(self, identity: str, var: relax.Var, label: str) -> None:
        """A boundary node; a plain feature map comes from it."""
        self.nodes.append(GraphNode(identity, NodeKind.BOUNDARY, label, static_shape4(var)))
        self.decided_by[var] = identity

    def _connect(self, identity: str, operands: Iterable[relax.Expr]) -> None:
        for operand in operands:
            if operand in self.decided_by and is_feature_map(operand):
                tensor = self.tensors.get(operand, self.ids[operand])
                ends = self.decided_by[operand], identity
                self.edges.append(
                    GraphEdge(*ends, static_shape4(operand), tensor, dtype_of(operand))
                )

    def _unique(self, name: str) -> str:
        """The name; from its second use on, with an ordinal."""
        self.numbered[name] += 1
        return name if self.numbered[name] == 1 else f"{name}-{self.numbered[name]}"
