"""Shapes of Relax's types."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

Dims = tuple[int | None, ...]


def dimensions(ty: Any) -> Dims | None:
    """A tensor type's extents, ``None`` for each dynamic one; ``None`` where no shape is known."""
    # A slice is a list at once: TVM's arrays take three times as long to iterate.
    values = getattr(getattr(ty, "shape", None), "values", None)
    if values is None:
        return None
    return tuple(int(dim) if isinstance(dim, tvm.tirx.IntImm) else None for dim in values[:])


def static_shape_of(ty: Any) -> tuple[int, ...] | None:
    """A tensor type's shape if every extent is static; ``None`` for any other type."""
    dims = dimensions(ty)
    if dims is None or None in dims:
        return None
    return tuple(dim for dim in dims if dim is not None)


def tensors_of(ty: Any) -> tuple[Any, ...]:
    """A function result's tensor types in order, tuples flattened."""
    if not isinstance(ty, relax.TupleType):
        return (ty,)
    return tuple(tensor for field in ty.fields for tensor in tensors_of(field))
