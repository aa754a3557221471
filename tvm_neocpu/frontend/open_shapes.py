"""Import a model whose inputs' shapes are not all known: for any batch, or shape by shape.

TVM's importer follows unknown extents through single operators, not through the chains in which
files compute shapes. So a model is imported for known shapes only:

any batch     The imports at two large batches, each written with ``n`` for its batch, must be one
              and the same module. Then it is the network for any batch, unless the file decides
              by its batch (``If (N == 1)``, :mod:`.decisions`).
other shapes  The module carries a function that imports the model for given shapes.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

import onnx
import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_neocpu.core.errors import NeoCpuError, ShapeError, UnsupportedOperatorError
from tvm_neocpu.frontend.checks.limits import for_each_image
from tvm_neocpu.frontend.onnx_import import decisions_at, import_model
from tvm_neocpu.frontend.reading.onnx_model import (
    declared_shape,
    graph_inputs,
    resolve_shapes,
    shape_text,
)
from tvm_neocpu.frontend.shapes.decisions import Decisions, decides_alike, noted_decisions
from tvm_neocpu.relay_passes.batches.generalize import tells_batch, with_open_batch
from tvm_neocpu.relay_passes.ir.describe import AT_SHAPES, name_outputs
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK

# A number for an extent that is known, a name for one that is not.
Extents = tuple[int | str, ...]
# No extent of a network is a multiple of these. One is odd, one even: ``N mod k`` differs.
_STAND_INS = (1009, 1046)
# What a file makes of these must be what the stand-ins tell (:mod:`.decisions`).
_OTHERS = (1, 2, 20_011)
_BATCH = "batch"


def open_extents(
    graph: onnx.GraphProto, given: Mapping[str, Sequence[Any]] | None
) -> dict[str, Extents] | None:
    """Each input's extents, names among them; ``None`` if all are known or an input lacks a shape.

    A name, ``None`` or -1 in ``given`` leaves an extent open; so does a model's first extent that
    nobody gives, and the one of the same name in a state ``(layers, N, units)``. The first extents
    of all inputs without a name are one batch.
    """
    given = dict(given or {})
    extents = {}
    batches = set(map(_first_name, graph_inputs(graph))) - {None}
    for value in graph_inputs(graph):
        shape = given.get(value.name, _only_batch_open(value, batches))
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            return None
        extents[value.name] = tuple(
            _extent(dim, at, f"{value.name}_{at}") for at, dim in enumerate(shape)
        )
    if not any(isinstance(dim, str) for shape in extents.values() for dim in shape):
        return None
    _check(graph, given, extents)
    return extents


def import_open(
    model: onnx.ModelProto,
    extents: Mapping[str, Extents],
    dtype: str | Mapping[str, str],
    opset: int | None,
) -> tvm.IRModule:
    """The module, weights frozen in. Raises what :func:`import_model` raises."""
    mod = _for_any_batch(model, extents, dtype, opset) if _is_batch(extents) else None
    return mod or _for_given_shapes(model, extents, dtype, opset)


def _for_any_batch(
    model: onnx.ModelProto,
    extents: Mapping[str, Extents],
    dtype: str | Mapping[str, str],
    opset: int | None,
) -> tvm.IRModule | None:
    """``None`` where the network is not the same for all batches."""
    batch = tirx.Var("n", "int64")
    found, decided = [], []
    for stand_in in _STAND_INS:
        try:
            with for_each_image(stand_in), noted_decisions() as decisions:
                mod, _ = import_model(model, _at_batch(extents, stand_in), dtype, opset)
        except ShapeError:  # the file has a fixed batch, in a Reshape for instance
            return None
        except UnsupportedOperatorError:
            # States of a batch of 1, which an exporter wrote; or nothing that a shape would mend.
            import_model(model, _at_batch(extents, 1), dtype, opset)
            return None
        decided.append((stand_in, decisions))
        with PYTHON_LOCK:
            found.append(with_open_batch(mod, stand_in, batch))
    first, second = found
    if not tvm_ffi.structural_equal(first, second, map_free_vars=True):
        return None
    if not tells_batch(first, batch):
        return None
    return first if _decides_so_for_others(model, extents, opset, decided) else None


def _decides_so_for_others(
    model: onnx.ModelProto,
    extents: Mapping[str, Extents],
    opset: int | None,
    decided: Sequence[tuple[int, Decisions]],
) -> bool:
    """Whether a file decides for one image, for two and for very many as for the stand-ins."""
    first, second = decided
    for batch in _OTHERS:
        try:
            with for_each_image(batch):
                found = decisions_at(model, _at_batch(extents, batch), opset)
        except NeoCpuError:  # it cannot have so few, or so many
            return False
        if not decides_alike(batch, found, first, second):
            return False
    return True


def _at_batch(extents: Mapping[str, Extents], batch: int) -> dict[str, Extents]:
    return {
        name: tuple(batch if isinstance(dim, str) else dim for dim in shape)
        for name, shape in extents.items()
    }


def _for_given_shapes(
    model: onnx.ModelProto,
    extents: Mapping[str, Extents],
    dtype: str | Mapping[str, str],
    opset: int | None,
) -> tvm.IRModule:
    """A module whose one call stands for a network that is only known for given shapes."""

    def at_shapes(text: str) -> tvm.IRModule | str:
        given = {name: tuple(shape) for name, shape in json.loads(text).items()}
        merged = {name: given.get(name, shape) for name, shape in extents.items()}
        try:
            if _is_batch(merged):
                return import_open(model, merged, dtype, opset)
            return import_model(model, merged, dtype, opset)[0]
        except NeoCpuError as error:  # TVM would make a RuntimeError of it
            return f"{type(error).__name__}: {error}"

    symbols: dict[str, tirx.Var] = {}
    params = []
    for value in graph_inputs(model.graph):
        shape = [
            symbols.setdefault(dim, tirx.Var(dim, "int64")) if isinstance(dim, str) else dim
            for dim in extents[value.name]
        ]
        element = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        params.append(relax.Var(value.name, relax.TensorType(shape, str(element))))
    builder = relax.BlockBuilder()
    with PYTHON_LOCK, builder.function("main", params, {"global_symbol": "main"}, pure=False):
        result = builder.emit(
            relax.call_pure_packed("neocpu.needs_shapes", *params, ty_args=relax.ObjectType())
        )
        builder.emit_func_output(result)
    mod = name_outputs(builder.get(), [value.name for value in model.graph.output])
    return mod.with_attr(AT_SHAPES, tvm_ffi.convert(at_shapes))


def _first_name(value: onnx.ValueInfoProto) -> str | None:
    """The name that the model gives an input's first extent."""
    dims = value.type.tensor_type.shape.dim
    return str(dims[0].dim_param) or None if dims else None


def _only_batch_open(
    value: onnx.ValueInfoProto, batches: Container[str | None]
) -> list[Any] | None:
    """The model's own shape if no extent is open but the first, or one that is called a batch."""
    declared = declared_shape(value)
    if declared is None:
        return None
    dims = value.type.tensor_type.shape.dim
    opened = [at for at, extent in enumerate(declared) if extent is None]
    if len(opened) > 1 or any(at and dims[at].dim_param not in batches for at in opened):
        return None
    return [
        dim.dim_param or None if extent is None else extent
        for dim, extent in zip(dims, declared, strict=True)
    ]


def _extent(dim: Any, at: int, name: str) -> int | str:
    if isinstance(dim, str):
        return dim
    if isinstance(dim, tirx.Var):
        return str(dim.name)
    if dim is None or dim == -1:
        return name if at else _BATCH
    return int(dim)


def _is_batch(extents: Mapping[str, Extents]) -> bool:
    """Whether one extent of each input is open, one and the same; of an input it is the first."""
    opened = [[dim for dim in shape if isinstance(dim, str)] for shape in extents.values()]
    return (
        all(len(names) == 1 for names in opened)
        and len({name for names in opened for name in names}) == 1
        and any(isinstance(shape[0], str) for shape in extents.values())
    )


def _check(
    graph: onnx.GraphProto, given: Mapping[str, Sequence[Any]], extents: Mapping[str, Extents]
) -> None:
    """Raise ShapeError for names and shapes that do not fit the model, whatever the open ones are.

    A batch that the model fixes may be open: importing finds out whether the network follows.
    """
    stand_ins: dict[str, Sequence[Any]] = {
        name: shape for name, shape in given.items() if name not in extents
    }
    for value in graph_inputs(graph):
        shape, declared = extents[value.name], declared_shape(value)
        if declared is not None and any(
            isinstance(ours, str) and theirs is not None
            for ours, theirs in zip(shape[1:], declared[1:], strict=False)
        ):
            known = shape_text(declared)
            raise ShapeError(f"input {value.name!r} is {known} in the model, not {list(shape)}")
        stand_ins[value.name] = [1 if isinstance(dim, str) else dim for dim in shape]
    resolve_shapes(graph, stand_ins)
