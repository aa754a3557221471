"""``If`` whose condition a run computes: each branch is computed where it is taken.

TVM's importer binds what a branch computes before the ``If``, so that every run computes both
branches, and leaves a result unusable whose shape depends on the branch.

A branch may not fit the shapes of the inputs. A check that fails stands in its place, so that a
run that takes it raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import numpy_helper
from tvm import relax, tirx
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.open.at_run_time import with_names
from tvm_neocpu.frontend.converters.open.known import Extents, as_expr
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of


class ConversionFailure(BaseException):
    """No Exception: TVM prints the inputs of a node, weights and all, for each that passes it."""


@dataclass(frozen=True)
class _Nodes:
    """What TVM's importer reads of a graph that it converts."""

    node: Sequence[onnx.NodeProto]


class BranchingImporter(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, but for ``If``."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # Of this model's tensors.
        self.extents = Extents()

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
        names = ("then_branch", "else_branch")
        branches = [self._branch_or_failure(graphs[name]) for name in names]
        for place, failure in enumerate(branches):
            other = branches[1 - place]
            if not isinstance(failure, ConversionFailure):
                continue
            if isinstance(other, ConversionFailure):
                raise failure
            said = f"{names[place]} of If (node {node.name or 'without a name'}) is not possible"
            said = f"{said} for these inputs: {failure}"
            warnings.warn(f"{said}; a run that takes it fails", stacklevel=2)
            branches[place] = self._failing(condition, place == 0, other.body.ty)
        taken = self.bb.emit(relax.If(condition, *branches))
        for place, name in enumerate(node.output):
            value = taken
            if len(node.output) > 1:
                value = self.bb.emit(relax.TupleGetItem(taken, place))
            if name:
                self._nodes[name] = self._of_known_rank(value, node)

    def _branch_or_failure(self, graph: onnx.GraphProto) -> relax.SeqExpr | ConversionFailure:
        try:
            return self._branch(graph)
        except ConversionFailure as failure:
            return failure

    def _failing(self, condition: relax.Expr, taken: bool, ty: Any) -> relax.SeqExpr:
        """A branch that raises where the condition is ``taken``; its results have these types.

        A match_cast of the condition to its opposite raises: kernels have no assertions.
        """
        kinds = tensors_of(ty)
        self.bb._begin_binding_block()
        number = self.bb.emit(relax.op.astype(condition, "int64"))
        count = self.bb.emit(relax.op.reshape(number, [1]))
        shape = self.bb.emit(relax.op.tensor_to_shape(count))
        self.bb.match_cast(shape, relax.ShapeType([0 if taken else 1]))
        shapes = [[1 if dim is None else dim for dim in dimensions(kind)] for kind in kinds]
        results = [
            relax.const(np.zeros(shape, str(kind.dtype)))
            for shape, kind in zip(shapes, kinds, strict=True)
        ]
        result = self.bb.emit(results[0] if len(results) == 1 else relax.Tuple(results))
        return relax.SeqExpr([self.bb._end_block()], result)

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
        return with_extents(self.bb, value, self.extents)


def with_extents(builder: relax.BlockBuilder, value: relax.Expr, known: Extents) -> relax.Expr:
    """A tensor of known rank gets a name for each extent that has none, which its readers need.

    An extent that is an expression of others gets one too, so that later kernels can read it.
    """
    ty = value.ty if isinstance(value, relax.Expr) else None
    if not isinstance(ty, relax.TensorType) or ty.ndim < 0:
        return value
    if ty.shape is None:
        extents = [known.new(f"extent_{axis}") for axis in range(ty.ndim)]
        return builder.match_cast(value, relax.TensorType(extents, str(ty.dtype)))
    if not isinstance(ty.shape, relax.ShapeExpr):
        return value
    given = extents_of(value)
    if all(isinstance(extent, int) for extent in given):
        return value
    if isinstance(value, tvm.ir.Call):
        # Bound to a variable here, so that a check of its extents does not compute it again.
        value = builder.emit(value)
    if all(isinstance(extent, (int, tirx.Var)) for extent in given):
        return value
    names = [f"extent_{axis}" for axis in range(len(given))]
    shape = [as_expr(extent) for extent in with_names(builder, known, given, names)]
    return builder.emit(relax.op.reshape(value, relax.ShapeExpr(shape)))
