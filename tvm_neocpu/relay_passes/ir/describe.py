"""What a network takes and gives: names, shapes and types, read off its ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.relay_passes.ir.open_batch import open_batch
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of

# The attribute of ``main`` in which an importer leaves the names of the outputs, in order.
OUTPUT_NAMES = "neocpu.output_names"

# The attribute of a module in which an importer leaves a function from shapes to the network: its
# argument is JSON, {"input": [1, 3, 224, 224]}. For a NeoCpuError it returns "ItsName: its text".
AT_SHAPES = "neocpu.at_shapes"

# Name, shape, NumPy dtype.
Described = tuple[str, tuple[int, ...], str]


def name_outputs(mod: tvm.IRModule, names: Sequence[str]) -> tvm.IRModule:
    """The module with names for its outputs, which Relax itself has no place for."""
    named = mod.clone()
    named["main"] = mod["main"].with_attr(OUTPUT_NAMES, list(names))
    return named


def describe_inputs(mod: tvm.IRModule) -> tuple[Described, ...]:
    """The inputs in order; a batch that is open (:func:`open_batch`) reads -1.

    Raises ShapeError for any other extent that is not static.
    """
    is_open = open_batch(mod) is not None
    return tuple(_describe_input(var.name, var.ty, is_open) for var in mod["main"].params)


def describe_outputs(mod: tvm.IRModule) -> tuple[Described, ...]:
    """The outputs in order, tuples flattened; a dynamic dimension reads -1.

    Names are the importer's, of a sequence's tensors ``"name.0"``, ``"name.1"``. Without them an
    output is named by its number: ``"0"``, ``"1"``.
    """
    main = mod["main"]
    types = tensors_of(main.ret_ty)
    names = [str(name) for name in (main.attrs or {}).get(OUTPUT_NAMES, ())]
    if len(names) != len(types):
        names = _names_of_tensors(names, main.ret_ty) or list(map(str, range(len(types))))
    return tuple(map(_describe_output, names, types))


def _names_of_tensors(names: list[str], returned: Any) -> list[str]:
    """A name for each tensor, where some results are sequences; none where that does not fit."""
    if not isinstance(returned, relax.TupleType):
        return []
    nested = any(isinstance(field, relax.TupleType) for field in returned.fields)
    fields = [returned] if len(names) == 1 and not nested else list(returned.fields)
    if len(names) != len(fields):
        return []
    found: list[str] = []
    for name, field in zip(names, fields, strict=True):
        parts = tensors_of(field)
        is_one = not isinstance(field, relax.TupleType)
        found += [name] if is_one else [f"{name}.{at}" for at in range(len(parts))]
    return found if len(set(found)) == len(found) else []


def _describe_input(name: str, ty: Any, is_open: bool) -> Described:
    shape = dimensions(ty)
    if shape is None or (None in shape and not is_open):
        raise ShapeError(
            f"input {name!r} has no static shape; give one when importing: "
            f'from_onnx(model, {{"{name}": (1, ...)}}), or several to build for: '
            f'relay.build(..., shapes=[{{"{name}": (1, ...)}}, ...])'
        )
    return name, tuple(-1 if dim is None else dim for dim in shape), str(ty.dtype)


def _describe_output(name: str, ty: Any) -> Described:
    dims = dimensions(ty)
    if dims is None:  # only a run knows its extents, such as those of NonZero's output
        dims = (None,) * max(int(getattr(ty, "ndim", 0)), 0)
    return name, tuple(-1 if dim is None else dim for dim in dims), str(getattr(ty, "dtype", ""))
