"""Fold what computes shapes: the inputs' shapes are known, so all of it is constant.

    Shape(x) -> Gather -> Concat(.., -1) -> Reshape(x, ..)      what exporters write
    Constant([1, -1])                    -> Reshape(x, ..)      what the importer reads

One walk over the nodes in their order: onnx infers the types of each node's results, onnx's
reference evaluator computes each node whose inputs are known and small. ``If`` with a known
condition becomes its branch; another one gets both branches folded. ``Loop`` and ``Scan`` become
their iterations where these are known; in another one what is the same in all trips is folded. An
operator without a converter becomes the body that its schema has. A node that onnx cannot infer or
evaluate stays as it is.

onnxslim was tried and left: it fuses float arithmetic too, and results are no longer bit-equal.
"""

from __future__ import annotations

import contextlib
import math
from collections import ChainMap, deque
from collections.abc import Container, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_node_outputs

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.batched_scan import FIRST_WITHOUT_BATCH, scan_of_each_image
from tvm_neocpu.frontend.check_graph import stored_bytes
from tvm_neocpu.frontend.decisions import note_decision
from tvm_neocpu.frontend.inline_branch import inlined_branch
from tvm_neocpu.frontend.inline_functions import function_nodes
from tvm_neocpu.frontend.limits import Budget
from tvm_neocpu.frontend.loop_form import Carried, LoopForm, loop_form, scan_as_loop
from tvm_neocpu.frontend.nodes import (
    FOLDABLE,
    SHAPE_READERS,
    common_type,
    constant_node,
    constant_of,
    has_graph,
    names_read,
    static_shape,
)
from tvm_neocpu.frontend.unroll_loop import MAX_NODES, LoopRest, unrolled_loop, unrolled_scan

Array = npt.NDArray[Any]

# What is larger than this many elements is a weight, no shape.
MAX_ELEMENTS = 2**16
# Their results are no larger than rank x elements of their input, though inference does not know.
_BOUNDED = frozenset({"Compress", "NonZero"})
_FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
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
    folder = _Folder(_opsets(model, opset), keep_weights, known, budget)
    for value in graph.input:
        if value.name in shapes:
            folder.know_type(value.name, value.type.tensor_type.elem_type, shapes[value.name])
    for tensor in graph.initializer:
        folder.know_tensor(tensor.name, tensor, weight=True)
    nodes = folder.folded(graph)
    return graph if nodes is None else Graph(graph.input, graph.output, graph.initializer, nodes)


class _Folder:
    """The types and the small values that are known so far, by tensor name."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        keep_weights: bool,
        known: Container[str] | None,
        budget: Budget,
    ) -> None:
        self.computed: dict[str, Array] = {}
        self._budget = budget
        self._opsets = [helper.make_opsetid(domain, ver) for domain, ver in opsets.items()]
        self._versions = opsets
        self._keep_weights = keep_weights
        self._known = known
        self._types: MutableMapping[str, onnx.TypeProto] = {}
        self._tensors: MutableMapping[str, onnx.TensorProto | None] = {}

    def know_type(self, name: str, dtype: int, shape: Sequence[int]) -> None:
        self._types[name] = helper.make_tensor_type_proto(dtype, list(shape))

    def know_tensor(self, name: str, tensor: onnx.TensorProto, weight: bool = False) -> None:
        self.know_type(name, tensor.data_type, tensor.dims)
        self._budget.know_constant(name)
        is_swappable = weight and self._keep_weights and tensor.data_type in _FLOATS
        if math.prod(tensor.dims) <= MAX_ELEMENTS and not is_swappable:
            self._tensors[name] = tensor

    def folded(self, graph: onnx.GraphProto) -> list[onnx.NodeProto] | None:
        """The nodes that stay and the constants that they read; ``None`` where nothing folds."""
        nodes, folded = self.walk(graph.node)
        if not folded:
            return None
        wanted = {value.name for value in graph.output}.union(*map(names_read, nodes))
        computed = ((name, value) for name, value in self.computed.items() if name in wanted)
        return [*(constant_node(name, value) for name, value in computed), *nodes]

    def walk(self, nodes: Iterable[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], bool]:
        """The nodes that stay, and whether any other one was folded."""
        pending: deque[onnx.NodeProto | LoopRest] = deque(nodes)
        kept, folded = [], False
        while pending:
            node = pending.popleft()
            if isinstance(node, LoopRest):
                iteration = node.next(self._truth(node.condition))
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
            elif not self._fold(node):
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
                inner.know_tensor(tensor.name, tensor, weight=True)
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
        types = {each: self._types.get(each.initial) or onnx.TypeProto() for each in form.carried}
        while True:
            inner = self._inside_of(form, types)
            nodes = inner.folded(form.body)
            held = {
                each: common_type(before, inner._types.get(each.following))
                for each, before in types.items()
            }
            if held == types:
                break
            types = held
        for each, known in types.items():
            self._types[each.result] = known
        for result, around in form.passed_on:
            self._know_as(result, around, self)
        if nodes is not None:
            del form.body.node[:]
            form.body.node.extend(nodes)
        return changed

    def _inside_of(self, form: LoopForm, types: Mapping[Carried, onnx.TypeProto]) -> _Folder:
        """The folder of a loop's body, which carries tensors of these types."""
        inner = self._inner()
        for tensor in form.body.initializer:
            inner.know_tensor(tensor.name, tensor, weight=True)
        for value in form.body.input:  # they hide tensors of the same name around the loop
            inner._types[value.name], inner._tensors[value.name] = onnx.TypeProto(), None
        for value, dtype in zip(
            form.body.input, (TensorProto.INT64, TensorProto.BOOL), strict=False
        ):
            rank = len(value.type.tensor_type.shape.dim)
            inner.know_type(value.name, dtype, [1] * rank)
        for each, known in types.items():
            inner._types[each.inside] = known
        for inside, around in form.unchanged:
            inner._know_as(inside, around, self)
        return inner

    def _know_as(self, name: str, other: str, folder: _Folder) -> None:
        """Know of a tensor what ``folder`` knows of another one."""
        self._types[name] = folder._types.get(other) or onnx.TypeProto()
        self._tensors[name] = folder._tensors.get(other)

    def _inner(self) -> _Folder:
        """The folder of a nested graph, which reads the tensors around it."""
        inner = _Folder(self._versions, self._keep_weights, self._known, self._budget)
        inner._types, inner._tensors = ChainMap({}, self._types), ChainMap({}, self._tensors)
        return inner

    def _inlined(self, node: onnx.NodeProto) -> Sequence[onnx.NodeProto | LoopRest] | None:
        """What stands in a node's place: iterations, a branch, a function's body.

        ``None`` for a node that stays.
        """
        unrolled = self._unrolled(node)
        if unrolled is not None:
            return unrolled
        branch = self._branch(node)
        if branch is not None:
            return inlined_branch(node, branch)
        if self._known is None or node.op_type in self._known:
            return None
        types = [self._types.get(name) for name in node.input]
        return function_nodes(node, types, self._versions[""])

    def _unrolled(self, node: onnx.NodeProto) -> Sequence[onnx.NodeProto | LoopRest] | None:
        """The iterations of a ``Loop`` or ``Scan``; ``None`` for what must stay."""
        opset = self._versions[""]
        if node.op_type == "Scan":
            shapes = [static_shape(self._types.get(name)) for name in node.input]
            if opset < FIRST_WITHOUT_BATCH:
                return self._images_of_scan(node, shapes, opset)
            return unrolled_scan(node, shapes, opset) or scan_as_loop(node)
        if node.op_type != "Loop":
            return None
        trips = self._value(node.input[0]) if node.input[0] else np.array(MAX_NODES)
        goes_on = self._truth(node.input[1]) if len(node.input) > 1 and node.input[1] else True
        if trips is None or trips.size != 1 or goes_on is None:
            return None
        return unrolled_loop(node, max(int(trips.item()), 0), goes_on, opset)

    def _images_of_scan(
        self, node: onnx.NodeProto, shapes: Sequence[Sequence[int] | None], opset: int
    ) -> list[onnx.NodeProto]:
        lengths = self._value(node.input[0]) if node.input[0] else None
        if node.input[0] and lengths is None:
            raise UnsupportedOperatorError("Scan of opset 8 needs sequence_lens that are constant")
        return scan_of_each_image(node, shapes, lengths, opset)

    def _truth(self, name: str) -> bool | None:
        """A condition; ``None`` where it is not known."""
        value = self._value(name)
        return bool(value.item()) if value is not None and value.size == 1 else None

    def _branch(self, node: onnx.NodeProto) -> onnx.GraphProto | None:
        """The branch that an ``If`` takes; ``None`` where it is not known."""
        condition = self._value(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            return None
        taken = "then_branch" if condition.item() else "else_branch"
        graphs = [entry.g for entry in node.attribute if entry.name == taken]
        return graphs[0] if graphs else None

    def _fold(self, node: onnx.NodeProto) -> bool:
        tensor = constant_of(node)
        if tensor is not None:
            self.know_tensor(node.output[0], tensor)
            if node.attribute[0].name == "value":
                return False
            # TVM's importer knows the attribute `value` only.
            self.computed[node.output[0]] = numpy_helper.to_array(tensor)
            return True
        inputs = self._inputs(node)
        types = self._inferred(node, inputs)
        self._types.update(types)
        self._budget.check(node, types, self._types.get(node.input[0]) if node.input else None)
        if inputs is None or not _is_small(node, types, inputs):
            return False
        # What stands for a tensor of a shape has no elements of its own.
        read = () if node.op_type in SHAPE_READERS else inputs.values()
        if not self._budget.takes(value.size for value in read):
            return False
        # Whatever evaluating raises, the node stays and is imported as it is.
        with contextlib.suppress(Exception):
            results = self._evaluated(node, inputs)
            for name, result in zip(node.output, results, strict=True):
                self.know_tensor(name, numpy_helper.from_array(result, name))
                self.computed[name] = result
                note_decision(result)
            return True
        return False

    def _inputs(self, node: onnx.NodeProto) -> dict[str, Array] | None:
        """The values that a foldable node reads; ``None`` where one is not known."""
        if node.op_type not in FOLDABLE or node.domain not in ("", "ai.onnx"):
            return None
        read = self._stand_in if node.op_type in SHAPE_READERS else self._value
        values = {name: read(name) for name in node.input if name}
        known = {name: value for name, value in values.items() if value is not None}
        return known if len(known) == len(values) else None

    def _value(self, name: str) -> Array | None:
        if name in self.computed:
            return self.computed[name]
        tensor = self._tensors.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def _stand_in(self, name: str) -> Array | None:
        """An array of the tensor's shape that takes no memory."""
        shape = static_shape(self._types.get(name))
        return None if shape is None else np.broadcast_to(np.int8(0), shape)

    def _inferred(
        self, node: onnx.NodeProto, inputs: Mapping[str, Array] | None
    ) -> dict[str, onnx.TypeProto]:
        """What onnx knows of the node's results; nothing where an input's type is not known."""
        types = {name: self._types[name] for name in node.input if name in self._types}
        version = self._versions.get(node.domain)
        # A nested graph reads tensors that are no inputs of the node.
        if version is None or has_graph(node) or len(types) < len(set(node.input) - {""}):
            return {}
        known = ((name, self._tensors.get(name)) for name in node.input)
        data = {name: tensor for name, tensor in known if tensor is not None}
        # Whatever inference raises, the types stay unknown.
        with contextlib.suppress(Exception):
            schema = onnx.defs.get_schema(node.op_type, version, node.domain)
            return dict(infer_node_outputs(schema, node, types, data, opset_imports=self._opsets))
        return {}

    def _evaluated(self, node: onnx.NodeProto, inputs: Mapping[str, Array]) -> list[Array]:
        graph = helper.make_graph(
            [node],
            "node",
            [helper.make_empty_tensor_value_info(name) for name in inputs],
            [helper.make_empty_tensor_value_info(name) for name in node.output],
        )
        model = helper.make_model(graph, opset_imports=self._opsets)
        with np.errstate(all="ignore"):
            return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, inputs)]


def _opsets(model: onnx.ModelProto, opset: int) -> dict[str, int]:
    domains = {entry.domain: entry.version for entry in model.opset_import}
    return {**domains, "": opset, "ai.onnx": opset}


def _is_small(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], inputs: Mapping[str, Array]
) -> bool:
    if node.op_type in _BOUNDED:
        return all(value.ndim * value.size <= MAX_ELEMENTS for value in inputs.values())
    shapes = [static_shape(types.get(name)) for name in node.output if name]
    return all(shape is not None and math.prod(shape) <= MAX_ELEMENTS for shape in shapes)
