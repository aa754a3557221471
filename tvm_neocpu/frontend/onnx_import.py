"""ONNX -> Relax, by TVM's importer, with errors that name what the user can change."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping
from typing import Any

import onnx
import tvm
from onnx import inliner
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, _get_convert_map

from tvm_neocpu.core.errors import (
    ModelFileError,
    NeoCpuError,
    ShapeError,
    UnsupportedOperatorError,
)
from tvm_neocpu.frontend.onnx_model import (
    Shape,
    Shapes,
    check_model,
    declared_shape,
    graph_inputs,
    opset_of,
    resolve_shapes,
    unsupported_operators,
)
from tvm_neocpu.relay_passes.ir.describe import name_outputs
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of

Params = dict[str, tvm.runtime.Tensor]


def import_model(
    model: onnx.ModelProto,
    shapes: Shapes | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
) -> tuple[tvm.IRModule, Params]:
    """The Relax module, and the weights by name (none when they are frozen into the module).

    Raises ModelFileError, UnsupportedOperatorError or ShapeError.
    """
    model = check_model(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
    _check_operators(model.graph)
    resolved = resolve_shapes(model.graph, shapes)
    rebatched = _changed_batch(model.graph, resolved)
    importer = _Importer(
        {name: list(shape) for name, shape in resolved.items()},
        dict(dtype) if isinstance(dtype, Mapping) else dtype,
        keep_params_in_input=not freeze_params,
        sanitize=False,
    )
    try:
        mod = _run_importer(importer, model.graph, opset or opset_of(model))
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
    return (mod, {}) if freeze_params else _detach(mod)


class _Importer(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, whose own errors do not say which node they are about."""

    def _convert_operator(
        self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int
    ) -> Any:
        try:
            return super()._convert_operator(op_name, inputs, attrs, opset)
        except Exception as error:  # a converter may raise anything at all
            name = attrs["tvm_custom"]["name"] or "without a name"
            raise UnsupportedOperatorError(
                f"cannot import operator {op_name} (node {name}): {_reason(error)}"
            ) from error


def _run_importer(importer: _Importer, graph: onnx.GraphProto, opset: int) -> tvm.IRModule:
    # TVM prints the inputs of a failing node, weights and all, and warns about what we refuse.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importer.from_onnx(graph, opset)
        except NeoCpuError:
            raise
        except KeyError as error:
            raise ModelFileError(f"the model is broken: nothing makes tensor {error}") from error
        except Exception as error:  # whatever else the importer does not foresee
            raise UnsupportedOperatorError(f"cannot import the model: {_reason(error)}") from error


def _check_operators(graph: onnx.GraphProto) -> None:
    missing = unsupported_operators(graph, _get_convert_map())
    if not missing:
        return
    what = "operator" if len(missing) == 1 else "operators"
    raise UnsupportedOperatorError(f"the model uses {what} TVM cannot import: {', '.join(missing)}")


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


def _reason(error: Exception) -> str:
    """The first line that says something: TVM's checks start with a stack of their own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
