"""A network whose inputs have open extents, at given shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_neocpu.core import errors
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.relay_passes.batches.generalize import at_batch
from tvm_neocpu.relay_passes.ir.describe import AT_SHAPES, Described
from tvm_neocpu.relay_passes.ir.open_batch import open_batch
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

# A number for each extent. A batch may stay open: -1, None or a name. It is the first extent, or
# where the network has it.
InputShapes = Mapping[str, Sequence[int | str | None]]


def at_shapes(mod: tvm.IRModule, given: InputShapes) -> tvm.IRModule:
    """The network whose inputs have the given shapes; those that are not named keep theirs.

    Raises ShapeError for an input that the network does not have, and for a shape that does not fit
    it, and what importing the network for these shapes raises.
    """
    shapes = _checked(mod, given)
    attrs = mod.attrs or {}
    if AT_SHAPES in attrs:
        text = json.dumps({name: list(shape) for name, shape in shapes.items()})
        imported = attrs[AT_SHAPES](text)
        if isinstance(imported, tvm.IRModule):
            return imported
        kind, _, reason = str(imported).partition(": ")
        raise getattr(errors, kind)(reason)
    values = _values(mod, shapes)
    batch = open_batch(mod)
    if batch is not None and len(values) == 1:
        return at_batch(mod, batch, next(iter(values.values())))
    if not values:
        return mod
    return relax.transform.BindSymbolicVars(values, "main")(mod)


def open_inputs(mod: tvm.IRModule) -> tuple[Described, ...]:
    """The inputs in order; an open extent reads -1."""
    described = []
    for var in mod["main"].params:
        dims = dimensions(var.ty) or ()
        shape = tuple(-1 if dim is None else dim for dim in dims)
        described.append((str(var.name), shape, str(var.ty.dtype)))
    return tuple(described)


def _checked(mod: tvm.IRModule, given: InputShapes) -> dict[str, tuple[int | str, ...]]:
    """The given shapes, an open batch by the name ``"batch"``."""
    inputs = {name: shape for name, shape, _ in open_inputs(mod)}
    for name in given:
        if name not in inputs:
            raise ShapeError(f"the network has no input {name!r}; it has {', '.join(inputs)}")
    has_batch = open_batch(mod) is not None
    return {
        name: _fitting(name, own, tuple(shape), own.index(-1) if has_batch else 0)
        for name, shape in given.items()
        for own in [inputs[name]]
    }


def _fitting(
    name: str, own: tuple[int, ...], shape: tuple[Any, ...], batch: int
) -> tuple[int | str, ...]:
    opened = tuple(
        "batch" if at == batch and (dim is None or dim == -1 or isinstance(dim, str)) else dim
        for at, dim in enumerate(shape)
    )
    numbers = [dim for at, dim in enumerate(opened) if at != batch or dim != "batch"]
    if not all(isinstance(dim, int) and dim > 0 for dim in numbers):
        which = f"extent {batch}, counted from 0," if batch else "the first extent"
        raise ShapeError(
            f"shape {list(shape)} of input {name!r}: only {which} may "
            "stay open, the others are numbers above 0"
        )
    fits = len(own) == len(shape) and all(
        theirs == -1 or theirs == ours for theirs, ours in zip(own, opened, strict=True)
    )
    if not fits:
        shown = ", ".join("?" if dim == -1 else str(dim) for dim in own)
        raise ShapeError(f"input {name!r} is [{shown}] in the network, not {list(shape)}")
    return opened


def _values(mod: tvm.IRModule, shapes: Mapping[str, tuple[int | str, ...]]) -> dict[tirx.Var, int]:
    """What each open extent of the inputs is."""
    values: dict[tirx.Var, int] = {}
    for param in mod["main"].params:
        for own, dim in zip(
            getattr(getattr(param.ty, "shape", None), "values", ()),
            shapes.get(str(param.name), ()),
            strict=False,
        ):
            if not isinstance(own, tirx.Var) or isinstance(dim, str):
                continue
            if values.setdefault(own, dim) != dim:
                raise ShapeError(
                    f"input {param.name!r}: extent {own.name} is {values[own]} in another place, "
                    f"not {dim}"
                )
    return values
