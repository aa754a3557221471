"""ONNX -> Relax: TVM's importer with converters of ours, and errors that name what to change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map, onnx_input

from tvm_neocpu.core.errors import (
    ModelFileError,
    NeoCpuError,
    ShapeError,
    UnsupportedOperatorError,
    first_line,
)
from tvm_neocpu.frontend.checks.element_types import check_element_types
from tvm_neocpu.frontend.control_flow.import_branches import (
    BranchingImporter,
    ConversionFailure,
    with_extents,
)
from tvm_neocpu.frontend.converters.node import Node, read_attributes
from tvm_neocpu.frontend.converters.open.table import BROADCAST, OPEN, is_open, open_converter
from tvm_neocpu.frontend.converters.open.values import OF_VALUES, of_known_values, reads_extents
from tvm_neocpu.frontend.converters.table import BY_BODY, CONVERTERS
from tvm_neocpu.frontend.nodes import opset_of
from tvm_neocpu.frontend.reading.half_metadata import asked_half, asked_halves
from tvm_neocpu.frontend.reading.onnx_model import (
    Shape,
    Shapes,
    check_model,
    declared_shape,
    graph_inputs,
    resolve_shapes,
    unsupported_operators,
)
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes
from tvm_neocpu.frontend.reading.weights_in_file import WeightsInFile
from tvm_neocpu.frontend.rewriting.inline_functions import without_functions
from tvm_neocpu.frontend.rewriting.narrow_codes import in_bytes
from tvm_neocpu.frontend.rewriting.single_precision import in_single_precision
from tvm_neocpu.frontend.sequences.loop_sequences import sequences_as_tensors
from tvm_neocpu.frontend.shapes.decisions import Decisions, noted_decisions
from tvm_neocpu.frontend.shapes.fold_shapes import Graph, fold_shapes
from tvm_neocpu.relay_passes.ir.describe import name_outputs
from tvm_neocpu.relay_passes.ir.half_weights import with_half_layers, with_half_weights
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of

Params = dict[str, tvm.runtime.Tensor]


def import_model(
    model: onnx.ModelProto,
    shapes: Shapes | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    weights: WeightsInFile | None = None,
) -> tuple[tvm.IRModule, Params]:
    """The Relax module, and the weights by name (none when they are frozen into the module).

    ``weights`` has those that a checked ``model`` lacks. Raises ModelFileError,
    UnsupportedOperatorError or ShapeError.
    """
    model = check_model(model) if weights is None else model
    half, halves = asked_half(model), asked_halves(model)
    layers = OnnxNodes(model, dict(shapes or {})).heavy if halves else []
    ready = _folded(model, shapes, opset, keep_weights=not freeze_params)
    model = ready.model
    rebatched = _changed_batch(model.graph, ready.shapes)
    importer = _Importer(
        {name: list(shape) for name, shape in ready.shapes.items()},
        dict(dtype) if isinstance(dtype, Mapping) else dtype,
        keep_params_in_input=not freeze_params,
        sanitize=False,
    )
    importer.weights = weights
    try:
        mod = _run_importer(importer, ready.graph, ready.opset)
        mod = name_outputs(mod, [value.name for value in model.graph.output])
        if rebatched is not None:
            _check_outputs_follow(model.graph, mod, rebatched[1])
    except UnsupportedOperatorError as error:
        if rebatched is None:
            raise
        old, new = rebatched
        raise ShapeError(
            f"the model's batch is fixed to {old} and cannot become {new}: {error}"
        ) from error
    if half is not None:
        mod = with_half_weights(mod, half)
    if layers:
        noted = [(layer.computes, halves.get(layer.name)) for layer in layers]
        mod = with_half_layers(mod, noted)
    return (mod, {}) if freeze_params else _detach(mod)


def decisions_at(model: onnx.ModelProto, shapes: Shapes, opset: int | None = None) -> Decisions:
    """What a file decides by these shapes; nothing is converted.

    Raises ModelFileError, UnsupportedOperatorError or ShapeError.
    """
    with noted_decisions() as decisions:
        _folded(check_model(model), shapes, opset, keep_weights=False)
    return decisions


class _Folded(NamedTuple):
    """A model of operators that can be converted, and its graph, folded for the inputs' shapes."""

    model: onnx.ModelProto
    graph: Graph | onnx.GraphProto
    shapes: Mapping[str, Shape]
    opset: int


def _folded(
    model: onnx.ModelProto, shapes: Shapes | None, opset: int | None, keep_weights: bool
) -> _Folded:
    model = without_functions(model)
    model = in_bytes(in_single_precision(model))
    check_element_types(model.graph)
    resolved = resolve_shapes(model.graph, shapes)
    opset = opset or opset_of(model)
    model = sequences_as_tensors(model, opset)
    known = {**_get_convert_map(), **CONVERTERS, "If": None, "Loop": None}
    graph = fold_shapes(model, resolved, opset, keep_weights, known=known.keys() - BY_BODY)
    # After folding: the branch that an If does not take may have any operator.
    _check_operators(graph, known)
    return _Folded(model, graph, resolved, opset)


# What TVM's importer alone converts is not asked about its extents.
_OURS = {*CONVERTERS, *OPEN, *BROADCAST, *OF_VALUES}


# Their converters in TVM ask a sequence for one tensor after the other; one that has a name has no
# last one, and they never end.
_READ_ALL = frozenset(["ConcatFromSequence", "SequenceErase", "SequenceInsert", "SequenceLength"])


class _Importer(BranchingImporter):
    """TVM's importer, with our converters before its own, and errors that name the node.

    Nodes of nested graphs come through :meth:`_convert_operator` too.
    """

    weights: WeightsInFile | None = None

    def _parse_array(self, tensor_proto: onnx.TensorProto) -> tvm.runtime.Tensor:
        if self.weights is not None and tensor_proto.name in self.weights.offsets:
            return self.weights.read(tensor_proto)
        return super()._parse_array(tensor_proto)

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """:func:`_check_operators` has checked before, nested graphs and our converters too."""

    def _convert_operator(
        self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int
    ) -> Any:
        try:
            return self._named(self._converted(op_name, inputs, attrs, opset))
        except Exception as error:  # a converter may raise anything at all
            name = attrs["tvm_custom"]["name"] or "without a name"
            raise ConversionFailure(
                f"cannot import operator {op_name} (node {name}): {first_line(error)}"
            ) from error

    def _converted(
        self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        """The converted node: of known numbers, of open extents, by us, by TVM's importer."""
        by_tvm = super()._convert_operator
        if op_name in _READ_ALL and not isinstance(inputs[0], relax.Tuple):
            raise UnsupportedOperatorError("it reads a sequence that is not built tensor by tensor")
        tensors = [value for value in inputs if value is not None]
        if op_name not in _OURS or any(isinstance(v.ty, relax.ShapeType) for v in tensors):
            return by_tvm(op_name, inputs, attrs, opset)
        written = dict(attrs)
        about = written.pop("tvm_custom")
        node = Node(
            op_name,
            opset,
            tuple(inputs),
            written,
            about["num_outputs"],
            self.bb,
            self._params,
            lambda given: by_tvm(op_name, onnx_input(given), attrs, opset),
            self.extents,
            str(about.get("name", "")),
        )
        has_open_extents = is_open(node)
        convert = CONVERTERS.get(op_name)
        if convert is None and not has_open_extents and not reads_extents(node):
            return node.by_tvm()
        node = replace(node, attributes=read_attributes(op_name, opset, written))
        found = of_known_values(node)
        if found is not None:
            return found
        if has_open_extents:
            convert = open_converter(op_name, convert)
        return self.bb.normalize(convert(node)) if convert else node.by_tvm()

    def _named(self, result: relax.Expr) -> relax.Expr:
        """The result with a number or a name for each of its extents."""
        if isinstance(result, relax.ShapeExpr):
            # TVM's Concat of constants makes one, which cannot be a network's output.
            extents = dimensions(relax.TensorType(result, "float32"))
            if extents is not None and None not in extents:
                return relax.const(np.array(extents, "int64"), "int64")
        if isinstance(result, relax.Tuple):
            return relax.Tuple([self._named(field) for field in result.fields])
        return with_extents(self.bb, result, self.extents)


def _run_importer(importer: _Importer, graph: Graph | onnx.GraphProto, opset: int) -> tvm.IRModule:
    with PYTHON_LOCK, _closing_blocks(importer.bb):
        try:
            return importer.from_onnx(graph, opset)
        except ConversionFailure as failure:
            raise UnsupportedOperatorError(str(failure)) from failure.__cause__
        except NeoCpuError:
            raise
        except KeyError as error:
            raise ModelFileError(f"the model is broken: nothing makes tensor {error}") from error
        except Exception as error:  # whatever else the importer does not foresee
            raise UnsupportedOperatorError(
                f"cannot import the model: {first_line(error)}"
            ) from error


@contextlib.contextmanager
def _closing_blocks(builder: relax.BlockBuilder) -> Iterator[None]:
    """TVM writes a warning to stderr for a builder whose block a failure left open."""
    try:
        yield
    except NeoCpuError:
        with contextlib.suppress(tvm.error.InternalError):  # the failure came before any block
            builder._end_block()
        raise


def _check_operators(graph: Graph | onnx.GraphProto, known: Mapping[str, object]) -> None:
    missing = unsupported_operators(graph, known)
    if not missing:
        return
    what = "operator" if len(missing) == 1 else "operators"
    said = f"the model uses {what} that cannot be imported: {', '.join(missing)}"
    if any(name.startswith("com.microsoft.nchwc::") for name in missing):
        said += "; ONNX Runtime saved it for one kind of CPU: save it at level extended or below"
    raise UnsupportedOperatorError(said)


def _changed_batch(graph: onnx.GraphProto, shapes: Mapping[str, Shape]) -> tuple[int, int] | None:
    """The model's batch and the one wanted instead; ``None`` where they are the same."""
    for value in graph_inputs(graph):
        declared, shape = declared_shape(value), shapes[value.name]
        if declared and declared[0] not in (None, shape[0]):
            return int(declared[0] or 0), shape[0]
    return None


def _check_outputs_follow(graph: onnx.GraphProto, mod: tvm.IRModule, batch: int) -> None:
    """A network that reshapes to its own batch may import all the same, and mix the images up."""
    for value, ty in zip(graph.output, tensors_of(mod["main"].ret_ty), strict=False):
        declared, found = declared_shape(value), dimensions(ty)
        if not found or not declared:
            continue
        expected = (batch, *declared[1:])
        if any(dim is not None and dim != real for dim, real in zip(expected, found, strict=False)):
            raise UnsupportedOperatorError(f"output {value.name!r} would be {list(found)}")


def _detach(mod: tvm.IRModule) -> tuple[tvm.IRModule, Params]:
    mod, lists = detach_params(mod)
    tensors = lists.get("main", [])
    count = int(mod["main"].attrs["num_input"])
    names = [var.name for var in mod["main"].params[count:]]
    return mod, dict(zip(names, tensors, strict=True))
