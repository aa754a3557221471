"""Reading ONNX: files, the shapes of a graph's inputs, and which operators cannot be imported.

Everything here is about the ONNX model alone; `onnx_import` makes a Relax module of it.
"""

from __future__ import annotations

import operator
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from tvm_neocpu.core.errors import (
    ModelFileError,
    NeoCpuError,
    OpenShapeError,
    ShapeError,
    first_line,
)
from tvm_neocpu.frontend.checks.check_graph import check_sound, is_external, tensors_of
from tvm_neocpu.frontend.checks.limits import check_elements, check_weight_bytes
from tvm_neocpu.frontend.nodes import all_nodes, opset_of
from tvm_neocpu.frontend.reading.dense_tensors import with_dense_tensors
from tvm_neocpu.frontend.reading.external_data import load_external_data
from tvm_neocpu.frontend.reading.sorted_nodes import in_order, sort_nodes
from tvm_neocpu.frontend.reading.weights_in_file import WeightsInFile, model_without_weights
from tvm_neocpu.frontend.shapes.fold_shapes import Graph
from tvm_neocpu.targets.syntax import suggestion

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]]
# Operators that the importer handles outside its table.
_CONTROL = frozenset({"If", "Loop"})
_DOMAINS = frozenset({"", "ai.onnx"})
# The operators of ONNX Runtime's own that may be converted. Others have the names of ONNX's own and
# compute something else (Unique, Attention): they are written out before, or refused.
_OF_ONNX_RUNTIME = frozenset(
    [
        "BiasGelu",
        "DequantizeLinear",
        "DynamicQuantizeLSTM",
        "FastGelu",
        "GatherND",
        "Gelu",
        "GridSample",
        "MatMulInteger16",
        "Pad",
        "QGemm",
        "QLinearAdd",
        "QLinearAveragePool",
        "QLinearConcat",
        "QLinearGlobalAveragePool",
        "QLinearLeakyRelu",
        "QLinearMul",
        "QLinearSigmoid",
        "QLinearSoftmax",
        "QuantizeLinear",
        "Range",
        "SkipLayerNormalization",
        "Trilu",
    ]
)


def load_model(path: str | Path) -> onnx.ModelProto:
    """Read an ONNX file with its external weights, which lie in its folder.

    Raises ModelFileError with one clear line.
    """
    path = _checked_path(path)
    try:
        model = onnx.load(str(path), load_external_data=False)
        sort_nodes(model)
        _check_model(model, str(path))
        load_external_data(model, path)
    except NeoCpuError:
        raise
    except DecodeError as error:
        raise ModelFileError(f"{path} is not an ONNX model, or is truncated") from error
    except Exception as error:  # each of onnx's formats has exceptions of its own
        raise ModelFileError(f"cannot read {path}: {first_line(error)}") from error
    return model


def load_to_import(path: str | Path) -> tuple[onnx.ModelProto, WeightsInFile | None]:
    """:func:`load_model`; large weights stay in the file where nothing but importing reads them.

    Raises ModelFileError with one clear line.
    """
    path = _checked_path(path)
    found = model_without_weights(path)
    if found is None:
        return load_model(path), None
    model, weights = found
    sort_nodes(model)
    _check_model(model, str(path))
    return with_dense_tensors(model, str(path)), weights


def _checked_path(path: str | Path) -> Path:
    if not str(path):
        raise ModelFileError("the model file's name is empty")
    path = Path(path)
    check_weight_bytes(str(path), _size_of(path))
    return path


def _size_of(path: Path) -> int:
    """In bytes, after a check that it is a file that may be one."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise ModelFileError(f"there is no model file {path}") from error
    except OSError as error:  # an unusable name, or a folder that is not this user's
        raise ModelFileError(f"cannot read {path!s:.200}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{path} is not a model file")
    if status.st_size == 0:
        raise ModelFileError(f"the model file {path} is empty")
    return status.st_size


def check_model(model: onnx.ModelProto, name: str = "the model") -> onnx.ModelProto:
    """The model if it is one, and sound, with all its weights, its nodes sorted, none sparse.

    Raises ModelFileError.
    """
    if isinstance(model, onnx.ModelProto):
        model = in_order(model)
    _check_model(model, name)
    for tensor in tensors_of(model):
        if is_external(tensor):
            raise ModelFileError(
                f"weight {tensor.name!r} of {name} lies in another file; give the model's path"
            )
    return with_dense_tensors(model, name)


def _check_model(model: onnx.ModelProto, name: str) -> None:
    """Bytes that are not ONNX often parse as an empty message."""
    if not isinstance(model, onnx.ModelProto):
        kind = type(model).__name__
        raise ModelFileError(f"expected an onnx.ModelProto or the path of a model, not {kind}")
    if not model.graph.node and not model.graph.output:
        raise ModelFileError(f"{name} is not an ONNX model, or is truncated: it has no graph")
    if not model.opset_import:
        raise ModelFileError(f"{name} does not say of which opset it is, or is truncated")
    if model.ir_version < 3:
        raise ModelFileError(f"{name} is of ONNX IR version {model.ir_version}; 3 is the oldest")
    _check_opset(model, name)
    check_sound(model, name)


def _check_opset(model: onnx.ModelProto, name: str) -> None:
    """What operators mean in an opset that is not published is a guess."""
    opset, newest = opset_of(model), onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ModelFileError(
            f"{name} is of opset {opset}; {newest} is the newest that onnx {onnx.__version__} knows"
        )


def unsupported_operators(
    graph: Graph | onnx.GraphProto, known: Mapping[str, object]
) -> tuple[str, ...]:
    """Names of all operators that the importer has no converter for, nested graphs included."""
    convertible = {*known, *_CONTROL}
    missing = {
        node.op_type if node.domain in _DOMAINS else f"{node.domain}::{node.op_type}"
        for node in all_nodes(graph)
        if node.op_type not in convertible or not _is_of_known_domain(node)
    }
    return tuple(sorted(missing))


def _is_of_known_domain(node: onnx.NodeProto) -> bool:
    by_runtime = node.domain == "com.microsoft" and node.op_type in _OF_ONNX_RUNTIME
    return by_runtime or node.domain in _DOMAINS


def graph_inputs(graph: onnx.GraphProto) -> tuple[onnx.ValueInfoProto, ...]:
    """The inputs that a user feeds: old models list their weights among the inputs too."""
    weights = {tensor.name for tensor in graph.initializer}
    return tuple(value for value in graph.input if value.name not in weights)


def resolve_shapes(graph: onnx.GraphProto, given: Shapes | None) -> dict[str, Shape]:
    """A static shape for every input: the model's own where it has one, else the given one.

    A given shape may differ from the model's in the batch (the first dimension) only; whether the
    network follows is found out by importing. Raises ShapeError naming the input.
    """
    inputs = graph_inputs(graph)
    given = dict(given or {})
    names = [value.name for value in inputs]
    for name in given:
        if name not in names:
            hint = suggestion(name, names) or f"; its inputs are {', '.join(names)}"
            raise ShapeError(f"the model has no input {name!r}{hint}")
    shapes = {value.name: resolve_shape(value, given.get(value.name)) for value in inputs}
    for name, shape in shapes.items():
        check_elements(f"input {name!r}", shape)
    return shapes


def declared_shape(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    """Dimensions as the model has them, ``None`` for a dynamic one; ``None`` for unknown rank."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim)


def resolve_shape(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Shape:
    """The static shape of one input, as `resolve_shapes` has it. Raises ShapeError."""
    name, declared = value.name, declared_shape(value)
    if not value.type.HasField("tensor_type"):
        raise ShapeError(f"input {name!r} is not a tensor")
    if given is None:
        return _static(value, declared)
    shape = _whole_numbers(name, given, _empty_dimensions(value))
    if declared is None:
        return shape
    fits = len(shape) == len(declared) and all(
        theirs in (None, ours) for ours, theirs in zip(shape[1:], declared[1:], strict=True)
    )
    if not fits:
        raise ShapeError(
            f"input {name!r} is {shape_text(declared)} in the model, not {list(shape)}"
        )
    return shape


def _static(value: onnx.ValueInfoProto, declared: tuple[int | None, ...] | None) -> Shape:
    name = value.name
    if declared is None:
        given = f"{{{name!r}: (1, ...)}}"
        ways = _ways_to_give(given, f"--shape {name}:1,...")
        raise ShapeError(f"input {name!r} has no shape; give one: {ways}")
    if None in declared:
        example = example_shape(declared)
        option = f"--shape {name}:{','.join(map(str, example))}"
        given = f"{{{name!r}: {example}}}"
        what = f"input {name!r} has dynamic dimensions, {shape_text(declared)}; give a shape, like"
        ways = _ways_to_give(given, option)
        raise OpenShapeError(f"{what} {ways}", f"{what} {option}", example)
    return tuple(dim for dim in declared if dim is not None)


def _ways_to_give(given: str, option: str) -> str:
    """Where a user writes an input's shape: in Python, or on the command line."""
    return (
        f"Session(..., shapes={given}), from_onnx(model, {given}) before relay.build, or {option}"
    )


def example_shape(declared: Sequence[int | None]) -> Shape:
    """One image of 3 channels and 224 x 224 pixels, in NCHW or NHWC; 128 of whatever else."""
    likely = {4: (1, 3, 224, 224), 5: (1, 3, 16, 224, 224)}.get(len(declared))
    if len(declared) == 4 and declared[3] in (1, 3, 4) and declared[1] is None:
        likely = (1, 224, 224, 3)
    likely = likely or (1, *[128] * len(declared[1:]))
    return tuple(dim or guess for dim, guess in zip(declared, likely, strict=True))


def _empty_dimensions(value: onnx.ValueInfoProto) -> frozenset[int]:
    """Places of dimensions that the model fixes to 0. Old exporters mean an open one by 0 too."""
    dims = value.type.tensor_type.shape.dim
    return frozenset(
        place for place, dim in enumerate(dims) if dim.HasField("dim_value") and dim.dim_value == 0
    )


def _whole_numbers(name: str, given: Sequence[int], empty: frozenset[int]) -> Shape:
    """The given shape; a dimension may be 0 where the model has 0 too."""
    try:
        shape = tuple(map(operator.index, given))
    except TypeError as error:
        raise ShapeError(
            f"the shape of input {name!r} is not a list of whole numbers: {given}"
        ) from error
    if any(dim < 1 and not (dim == 0 and place in empty) for place, dim in enumerate(shape)):
        raise ShapeError(f"the shape of input {name!r} has a dimension below 1: {list(shape)}")
    return shape


def shape_text(declared: Sequence[int | None]) -> str:
    """``"[?, 3, 224, 224]"``"""
    return f"[{', '.join('?' if dim is None else str(dim) for dim in declared)}]"
