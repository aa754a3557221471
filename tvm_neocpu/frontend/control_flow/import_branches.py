"""``If`` and ``Loop`` that a run decides: each branch is computed where it is taken.

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
from tvm_neocpu.frontend.control_flow.import_loops import LoopImporter, Names
from tvm_neocpu.frontend.control_flow.loop_types import single_of_rank
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.known import Extents, as_expr
from tvm_neocpu.frontend.converters.open.at_run_time import with_names
from tvm_neocpu.frontend.nodes import told
from tvm_neocpu.frontend.unrolling.loop_form import loop_form
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of


class ConversionFailure(BaseException):
    """No Exception: TVM prints the inputs of a node, weights and all, for each that passes it."""


@dataclass(frozen=True)
class _Nodes:
    """What TVM's importer reads of a graph that it converts."""

    node: Sequence[onnx.NodeProto]


class BranchingImporter(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, but for ``If`` and ``Loop``."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # Of this model's tensors.
        self.extents = Extents()

    def _construct_nodes(self, graph: Any) -> None:
        for node in graph.node:
            if node.op_type == "If":
                self._construct_if(node)
            elif node.op_type == "Loop":
                self._construct_loop(node)
            else:
                super()._construct_nodes(_Nodes([node]))

    def _construct_loop(self, node: onnx.NodeProto) -> None:
        form = loop_form(node)
        for result, around in form.passed_on:
            self._nodes[result] = self._nodes[around]
        names = [*(each.result for each in form.carried), *(name for _, name in form.stacked)]
        self._nodes.update(zip(names, LoopImporter(self, form).results(), strict=True))

    def _construct_if(self, node: onnx.NodeProto) -> None:
        graphs = {entry.name: entry.g for entry in node.attribute}
        condition = self._nodes[node.input[0]]
        if condition.ty.ndim != 0:
            condition = self.bb.emit(relax.op.reshape(condition, []))
        names = ("then_branch", "else_branch")
        branches = [self._branch_or_failure(graphs[name]) for name in names]
        ranks = _ranks_of_single_elements(branches)
        if ranks is not None:
            branches = [self._branch(graphs[name], ranks) for name in names]
        for place, failure in enumerate(branches):
            other = branches[1 - place]
            if not isinstance(failure, ConversionFailure):
                continue
            if isinstance(other, ConversionFailure):
                raise failure
            said = f"{names[place]} of {told(node)} is not possible"
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

    def _branch(self, graph: onnx.GraphProto, ranks: Sequence[int] | None = None) -> relax.SeqExpr:
        """The bindings of a branch, which sees all tensors that are known so far.

        ``ranks`` are what its results shall have if they are single elements.
        """
        outer = self._nodes
        self._nodes = Names(outer)
        self.bb._begin_binding_block()
        try:
            for tensor in graph.initializer:
                self._nodes[tensor.name] = relax.const(numpy_helper.to_array(tensor))
            self._construct_nodes(graph)
            results = [self._nodes[value.name] for value in graph.output]
            if ranks is not None:
                pairs = zip(results, ranks, strict=True)
                results = [single_of_rank(self.bb, each, rank) for each, rank in pairs]
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
                f"cannot import operator {told(node)}: the results of its branches differ in rank "
                "or type"
            )
        return with_extents(self.bb, value, self.extents)


def _ranks_of_single_elements(
    branches: Sequence[relax.SeqExpr | ConversionFailure],
) -> list[int] | None:
    """The larger rank of each result where both branches give one element, of different ranks.

    Paddle's exporter writes ``[]`` in one branch and ``[1]`` in the other. ``None`` where no result
    is like that.
    """
    if any(isinstance(branch, ConversionFailure) for branch in branches):
        return None
    kinds = [tensors_of(branch.body.ty) for branch in branches]
    ranks = [max(one.ndim, other.ndim) for one, other in zip(*kinds, strict=True)]
    differ = any(one.ndim != other.ndim for one, other in zip(*kinds, strict=True))
    return ranks if differ else None


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
