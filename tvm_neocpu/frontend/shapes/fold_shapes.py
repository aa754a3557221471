"""Fold what computes shapes: the inputs' shapes are known, so all of it is constant.

    Shape(x) -> Gather -> Concat(.., -1) -> Reshape(x, ..)      what exporters write
    Constant([1, -1])                    -> Reshape(x, ..)      what the importer reads

One walk over the nodes in their order, which learns of each node's results (:mod:`.known_tensors`).
``If`` with a known condition becomes its branch; another one gets both branches folded. ``Loop``
and ``Scan`` become their iterations where these are known; in another one what is the same in all
trips is folded. An operator without a converter becomes the body that its schema has.

onnxslim was tried and left: it fuses float arithmetic too, and results are no longer bit-equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.checks.check_graph import stored_bytes
from tvm_neocpu.frontend.checks.limits import Budget
from tvm_neocpu.frontend.nodes import (
    common_type,
    constant_node,
    names_read,
)
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.rewriting.inline_functions import function_nodes
from tvm_neocpu.frontend.rewriting.onnx_runtime_nodes import onnx_runtime_nodes
from tvm_neocpu.frontend.shapes.decisions import note_results
from tvm_neocpu.frontend.shapes.known_tensors import KnownTensors
from tvm_neocpu.frontend.unrolling.batched_scan import FIRST_WITHOUT_BATCH, scan_of_each_image
from tvm_neocpu.frontend.unrolling.inline_branch import inlined_branch
from tvm_neocpu.frontend.unrolling.loop_form import Carried, LoopForm, loop_form, scan_as_loop
from tvm_neocpu.frontend.unrolling.unroll_loop import (
    MAX_NODES,
    LoopRest,
    unrolled_loop,
    unrolled_scan,
)


@dataclass(frozen=True)
class Graph:
    """What an importer reads of an onnx.GraphProto. It shares the messages: no weight is copied."""

    input: Sequence[onnx.ValueInfoProto]
    output: Sequence[onnx.ValueInfoProto]
    initializer: Sequence[onnx.TensorProto]
    node: Sequence[onnx.NodeProto]


def fold_shapes(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]],
    opset: int,
    keep_weights: bool = False,
    known: Container[str] | None = None,
) -> Graph | onnx.GraphProto:
    """The model's graph with Constant nodes in place of whatever computes shapes.

    ``shapes`` has every input. ``keep_weights`` leaves what float initializers compute, for they
    may change after importing. ``known`` are the operators that have a converter, all by default;
    another one becomes the body that its schema has. The model's own graph comes back where
    nothing folds. Raises ShapeError or ModelFileError where a node makes something absurdly large.
    """
    graph = model.graph
    budget = Budget(sum(map(stored_bytes, graph.initializer)))
    versions = _versions(model, opset)
    tensors = KnownTensors(versions, keep_weights, budget)
    for value in graph.input:
        if value.name in shapes:
            tensors.know_type(value.name, value.type.tensor_type.elem_type, shapes[value.name])
    for tensor in graph.initializer:
        tensors.know_tensor(tensor.name, tensor, weight=True)
    nodes = _Folder(tensors, versions, known, FreshNames(graph)).folded(graph)
    return graph if nodes is None else Graph(graph.input, graph.output, graph.initializer, nodes)


class _Folder:
    """One walk over the nodes of a graph; ``tensors`` is what it knows of their tensors so far."""

    def __init__(
        self,
        tensors: KnownTensors,
        versions: Mapping[str, int],
        known: Container[str] | None,
        fresh: FreshNames,
    ) -> None:
        self.tensors = tensors
        self._versions = versions
        self._known = known
        self._fresh = fresh

    def folded(self, graph: onnx.GraphProto) -> list[onnx.NodeProto] | None:
        """The nodes that stay and the constants that they read; ``None`` where nothing folds."""
        nodes, folded = self.walk(graph.node)
        wanted = {value.name for value in graph.output}.union(*map(names_read, nodes))
        computed = {name: value for name, value in self.tensors.computed.items() if name in wanted}
        made = (name for node in nodes for name in node.output if name)
        shapes = ((name, self.tensors.shape(name)) for name in made)
        note_results(computed, {name: shape for name, shape in shapes if shape is not None})
        if not folded:
            return None
        return [*(constant_node(name, value) for name, value in computed.items()), *nodes]

    def walk(self, nodes: Iterable[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], bool]:
        """The nodes that stay, and whether any other one was folded."""
        pending: deque[onnx.NodeProto | LoopRest] = deque(nodes)
        kept, folded = [], False
        while pending:
            node = pending.popleft()
            if isinstance(node, LoopRest):
                iteration = node.next(self.tensors.truth(node.condition))
                if iteration is None:
                    del kept[node.before :]
                    kept.append(self._with_folded_body(node.node))
                else:
                    pending.extendleft(reversed(iteration))
                continue
            inlined = self._inlined(node)
            if inlined is not None:
                for part in inlined:
                    if isinstance(part, LoopRest):
                        part.before = len(kept)
                pending.extendleft(reversed(inlined))
            elif not self.tensors.fold(node):
                changed = self._with_folded_graphs(node)
                kept.append(changed)
                if changed is node:
                    continue
            folded = True
        return kept, folded

    def _with_folded_graphs(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The ``If`` or ``Loop`` with whatever folds inside of it folded; any other node itself."""
        if node.op_type == "Loop":
            return self._with_folded_body(node)
        if node.op_type != "If":
            return node
        found = {}
        for entry in node.attribute:
            inner = self._inner()
            for tensor in entry.g.initializer:
                inner.tensors.know_tensor(tensor.name, tensor, weight=True)
            found[entry.name] = inner.folded(entry.g)
        if all(nodes is None for nodes in found.values()):
            return node
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        for entry in changed.attribute:
            nodes = found[entry.name]
            if nodes is not None:
                del entry.g.node[:]
                entry.g.node.extend(nodes)
        return changed

    def _with_folded_body(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The ``Loop`` with whatever is the same in all of its trips folded."""
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        form = loop_form(changed)
        unchanged = dict(form.unchanged)
        for inside, following in zip(form.body.input[2:], form.body.output[1:], strict=False):
            if inside.name in unchanged:  # a folded Identity would hide that it is the same
                following.name = inside.name
        before = self.tensors.types
        types = {each: before.get(each.initial) or onnx.TypeProto() for each in form.carried}
        while True:
            inner = self._inside_of(form, types)
            nodes = inner.folded(form.body)
            held = {
                each: common_type(type_, inner.tensors.types.get(each.following))
                for each, type_ in types.items()
            }
            if held == types:
                break
            types = held
        for each, known in types.items():
            self.tensors.types[each.result] = known
        for result, around in form.passed_on:
            self.tensors.know_as(result, around, self.tensors)
        if nodes is not None:
            del form.body.node[:]
            form.body.node.extend(nodes)
        return changed

    def _inside_of(self, form: LoopForm, types: Mapping[Carried, onnx.TypeProto]) -> _Folder:
        """The folder of a loop's body, which carries tensors of these types."""
        inner = self._inner()
        for tensor in form.body.initializer:
            inner.tensors.know_tensor(tensor.name, tensor, weight=True)
        for value in form.body.input:  # they hide tensors of the same name around the loop
            inner.tensors.forget(value.name)
        for value, dtype in zip(
            form.body.input, (TensorProto.INT64, TensorProto.BOOL), strict=False
        ):
            rank = len(value.type.tensor_type.shape.dim)
            inner.tensors.know_type(value.name, dtype, [1] * rank)
        for each, known in types.items():
            inner.tensors.types[each.inside] = known
        for inside, around in form.unchanged:
            inner.tensors.know_as(inside, around, self.tensors)
        return inner

    def _inner(self) -> _Folder:
        """The folder of a nested graph, which reads the tensors around it."""
        return _Folder(self.tensors.inside(), self._versions, self._known, self._fresh.inside())

    def _inlined(self, node: onnx.NodeProto) -> Sequence[onnx.NodeProto | LoopRest] | None:
        """What stands in a node's place: iterations, a branch, a function's body.

        ``None`` for a node that stays.
        """
        unrolled = self._unrolled(node)
        if unrolled is not None:
            return unrolled
        branch = self._branch(node)
        if branch is not None:
            return inlined_branch(node, branch, self._fresh)
        types = [self.tensors.types.get(name) for name in node.input]
        of_runtime = onnx_runtime_nodes(node, types, self._versions[""], self._fresh)
        if of_runtime is not None or self._known is None or node.op_type in self._known:
            return of_runtime
        return function_nodes(node, types, self._versions[""], self._fresh)

    def _unrolled(self, node: onnx.NodeProto) -> Sequence[onnx.NodeProto | LoopRest] | None:
        """The iterations of a ``Loop`` or ``Scan``; ``None`` for what must stay."""
        opset = self._versions[""]
        if node.op_type == "Scan":
            shapes = [self.tensors.shape(name) for name in node.input]
            if opset < FIRST_WITHOUT_BATCH:
                return self._images_of_scan(node, shapes, opset)
            return unrolled_scan(node, shapes, opset, self._fresh) or scan_as_loop(
                node, self._fresh
            )
        if node.op_type != "Loop":
            return None
        trips = self.tensors.value(node.input[0]) if node.input[0] else np.array(MAX_NODES)
        has_condition = len(node.input) > 1 and node.input[1]
        goes_on = self.tensors.truth(node.input[1]) if has_condition else True
        if trips is None or trips.size != 1 or goes_on is None:
            return None
        return unrolled_loop(node, max(int(trips.item()), 0), goes_on, opset, self._fresh)

    def _images_of_scan(
        self, node: onnx.NodeProto, shapes: Sequence[Sequence[int] | None], opset: int
    ) -> list[onnx.NodeProto]:
        lengths = self.tensors.value(node.input[0]) if node.input[0] else None
        if node.input[0] and lengths is None:
            raise UnsupportedOperatorError("Scan of opset 8 needs sequence_lens that are constant")
        return scan_of_each_image(node, shapes, lengths, opset, self._fresh)

    def _branch(self, node: onnx.NodeProto) -> onnx.GraphProto | None:
        """The branch that an ``If`` takes; ``None`` where it is not known."""
        condition = self.tensors.value(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            return None
        taken = "then_branch" if condition.item() else "else_branch"
        graphs = [entry.g for entry in node.attribute if entry.name == taken]
        return graphs[0] if graphs else None


def _versions(model: onnx.ModelProto, opset: int) -> dict[str, int]:
    domains = {entry.domain: entry.version for entry in model.opset_import}
    return {**domains, "": opset, "ai.onnx": opset}
