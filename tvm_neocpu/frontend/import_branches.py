"""``If`` whose condition a run computes: each branch is computed where it is taken.

TVM's importer binds what a branch computes before the ``If``, so that every run computes both
branches, and leaves a result unusable whose shape depends on the branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import numpy_helper
from tvm import relax, tirx
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from tvm_neocpu.core.errors import UnsupportedOperatorError


@dataclass(frozen=True)
class _Nodes:
    """What TVM's importer reads of a graph that it converts."""

    node: Sequence[onnx.NodeProto]


class BranchingImporter(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, but for ``If``."""

    def _construct_nodes(self, graph: Any) -> None:
        for node in graph.node:
            if node.op_type == "If":
                self._construct_if(node)
            else:
                super()._construct_nodes(_Nodes([node]))

    def _construct_if(self, node: onnx.NodeProto) -> None:
        graphs = {entry.name: entry.g for entry in node.attribute}
        condition = self._nodes[node.input[0]]
        if condition.ty.ndim != 0:
            condition = self.bb.emit(relax.op.reshape(condition, []))
        branches = [self._branch(graphs[name]) for name in ("then_branch", "else_branch")]
        taken = self.bb.emit(relax.If(condition, *branches))
        for place, name in enumerate(node.output):
            value = taken
            if len(node.output) > 1:
                value = self.bb.emit(relax.TupleGetItem(taken, place))
            if name:
                self._nodes[name] = self._of_known_rank(value, node)

    def _branch(self, graph: onnx.GraphProto) -> relax.SeqExpr:
        """The bindings of a branch, which sees all tensors that are known so far."""
        outer = self._nodes
        self._nodes = dict(outer)
        self.bb._begin_binding_block()
        try:
            for tensor in graph.initializer:
                self._nodes[tensor.name] = relax.const(numpy_helper.to_array(tensor))
            self._construct_nodes(graph)
            results = [self._nodes[value.name] for value in graph.output]
            result = self.bb.emit(results[0] if len(results) == 1 else relax.Tuple(results))
        finally:
            block = self.bb._end_block()
            self._nodes = outer
        return relax.SeqExpr([block], result)

    def _of_known_rank(self, value: relax.Expr, node: onnx.NodeProto) -> relax.Expr:
        """A result whose extents depend on the branch gets symbolic ones."""
        known = value.ty
        if not isinstance(known, relax.TensorType) or known.ndim < 0 or known.dtype is None:
            raise UnsupportedOperatorError(
                f"cannot import operator If (node {node.name or 'without a name'}): "
                "the results of its branches differ in rank or type"
            )
        return with_extents(self.bb, value)


def with_extents(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """A tensor whose rank alone is known gets symbolic extents, which its readers need."""
    known = value.ty if isinstance(value, relax.Expr) else None
    if not isinstance(known, relax.TensorType) or known.shape is not None or known.ndim < 0:
        return value
    extents = [tirx.Var(f"extent_{axis}", "int64") for axis in range(known.ndim)]
    return builder.match_cast(value, relax.TensorType(extents, str(known.dtype)))
