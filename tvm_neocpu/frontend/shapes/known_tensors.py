"""What is known of tensors before the network runs: their types, and the values of small ones.

onnx infers the types of a node's results, and onnx's reference evaluator computes a node whose
inputs are known and small. A node that onnx cannot infer or evaluate stays as it is.
"""

from __future__ import annotations

import contextlib
import math
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import infer_node_outputs

from tvm_neocpu.frontend.checks.limits import Budget
from tvm_neocpu.frontend.nodes import (
    FOLDABLE,
    SHAPE_READERS,
    constant_of,
    has_graph,
    static_shape,
)
from tvm_neocpu.frontend.rewriting.onnx_runtime_nodes import has_type_of_first_input
from tvm_neocpu.frontend.shapes.decisions import note_decision

Array = npt.NDArray[Any]

# What is larger than this many elements is a weight, no shape.
MAX_ELEMENTS = 2**16
# Their results are no larger than rank x elements of their input, though inference does not know.
_BOUNDED = frozenset({"Compress", "NonZero"})
# A result of theirs may be empty because the kernel does not fit into the image.
_WINDOWED = frozenset(
    {"AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearAveragePool", "QLinearConv"}
)
_FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
)


class KnownTensors:
    """The types and the small values that are known so far, by tensor name.

    ``computed`` are the values that folding found. ``keep_weights`` forgets those of float
    initializers, which may change after importing.
    """

    def __init__(self, versions: Mapping[str, int], keep_weights: bool, budget: Budget) -> None:
        self.computed: dict[str, Array] = {}
        self.types: MutableMapping[str, onnx.TypeProto] = {}
        self.tensors: MutableMapping[str, onnx.TensorProto | None] = {}
        self._versions = versions
        self._opsets = [helper.make_opsetid(domain, ver) for domain, ver in versions.items()]
        self._keep_weights = keep_weights
        self._budget = budget

    def inside(self) -> KnownTensors:
        """What is known in a nested graph, which reads the tensors around it."""
        inner = KnownTensors(self._versions, self._keep_weights, self._budget)
        inner.types, inner.tensors = ChainMap({}, self.types), ChainMap({}, self.tensors)
        return inner

    def know_type(self, name: str, dtype: int, shape: Sequence[int]) -> None:
        self.types[name] = helper.make_tensor_type_proto(dtype, list(shape))

    def know_tensor(self, name: str, tensor: onnx.TensorProto, weight: bool = False) -> None:
        self.know_type(name, tensor.data_type, tensor.dims)
        self._budget.know_constant(name)
        is_swappable = weight and self._keep_weights and tensor.data_type in _FLOATS
        if math.prod(tensor.dims) <= MAX_ELEMENTS and not is_swappable:
            self.tensors[name] = tensor

    def know_as(self, name: str, other: str, known: KnownTensors) -> None:
        """Know of a tensor what is known elsewhere of another one."""
        self.types[name] = known.types.get(other) or onnx.TypeProto()
        self.tensors[name] = known.tensors.get(other)

    def forget(self, name: str) -> None:
        """Know nothing of a tensor, whatever is known of that name around the graph."""
        self.types[name], self.tensors[name] = onnx.TypeProto(), None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """A tensor's shape; ``None`` where it is not known."""
        return static_shape(self.types.get(name))

    def value(self, name: str) -> Array | None:
        """A tensor's value; ``None`` where it is not known."""
        if name in self.computed:
            return self.computed[name]
        tensor = self.tensors.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def truth(self, name: str) -> bool | None:
        """A condition; ``None`` where it is not known."""
        value = self.value(name)
        return bool(value.item()) if value is not None and value.size == 1 else None

    def fold(self, node: onnx.NodeProto) -> bool:
        """Learn of a node's results. Whether its values are known, so that it need not run."""
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
        self.types.update(types)
        self._budget.check(node, types, self.types.get(node.input[0]) if node.input else None)
        if inputs is None and self._makes_nothing(node, types):
            return True
        if inputs is None or not _is_small(node, types, inputs):
            return False
        # What stands for a tensor of a shape has no elements of its own.
        read = () if node.op_type in SHAPE_READERS else inputs.values()
        if not self._budget.takes(value.size for value in read):
            return False
        # Whatever evaluating raises, the node stays and is imported as it is.
        with contextlib.suppress(Exception):
            results = self._evaluated(node, inputs)
            operands = [inputs[name] for name in node.input if name]
            for name, result in zip(node.output, results, strict=True):
                self.know_tensor(name, numpy_helper.from_array(result, name))
                self.computed[name] = result
                note_decision(node.op_type, operands, result)
            return True
        return False

    def _makes_nothing(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> bool:
        """Learn of a node whose results have no elements, so that it need not run."""
        shapes = {name: static_shape(types.get(name)) for name in node.output if name}
        if not shapes or any(shape is None or 0 not in shape for shape in shapes.values()):
            return False
        read = (self.shape(name) or () for name in node.input)
        if node.op_type in _WINDOWED and not any(0 in shape for shape in read):
            return False  # its converter refuses that
        for name, shape in shapes.items():
            dtype = helper.tensor_dtype_to_np_dtype(types[name].tensor_type.elem_type)
            value = np.empty(shape or (), dtype)
            self.know_tensor(name, numpy_helper.from_array(value, name))
            self.computed[name] = value
        return True

    def _inputs(self, node: onnx.NodeProto) -> dict[str, Array] | None:
        """The values that a foldable node reads; ``None`` where one is not known."""
        if node.op_type not in FOLDABLE or node.domain not in ("", "ai.onnx"):
            return None
        read = self._stand_in if node.op_type in SHAPE_READERS else self.value
        values = {name: read(name) for name in node.input if name}
        known = {name: value for name, value in values.items() if value is not None}
        return known if len(known) == len(values) else None

    def _stand_in(self, name: str) -> Array | None:
        """An array of the tensor's shape that takes no memory."""
        shape = self.shape(name)
        return None if shape is None else np.broadcast_to(np.int8(0), shape)

    def _inferred(
        self, node: onnx.NodeProto, inputs: Mapping[str, Array] | None
    ) -> dict[str, onnx.TypeProto]:
        """What onnx knows of the node's results; nothing where an input's type is not known."""
        types = {name: self.types[name] for name in node.input if name in self.types}
        if has_type_of_first_input(node) and node.input[0] in types:
            return {node.output[0]: types[node.input[0]]}
        version = self._versions.get(node.domain)
        # A nested graph reads tensors that are no inputs of the node.
        if version is None or has_graph(node) or len(types) < len(set(node.input) - {""}):
            return {}
        known = ((name, self.tensors.get(name)) for name in node.input)
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


def _is_small(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], inputs: Mapping[str, Array]
) -> bool:
    if node.op_type in _BOUNDED:
        return all(value.ndim * value.size <= MAX_ELEMENTS for value in inputs.values())
    shapes = [static_shape(types.get(name)) for name in node.output if name]
    return all(shape is not None and math.prod(shape) <= MAX_ELEMENTS for shape in shapes)
