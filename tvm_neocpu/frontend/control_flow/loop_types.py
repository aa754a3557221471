"""Types of what a loop carries: what is known of their extents, and values that fit them."""

from __future__ import annotations

import numpy as np
from tvm import relax, tirx

from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, static_shape_of


def with_extents_of(
    builder: relax.BlockBuilder, value: relax.Expr, ty: relax.TensorType
) -> relax.Expr:
    """A tensor of which only the rank is known gets the extents of ``ty``, and names for others."""
    known = value.ty
    if not isinstance(known, relax.TensorType) or known.shape is not None:
        return value
    return builder.match_cast(value, with_own_extents(ty))


def single_of_rank(builder: relax.BlockBuilder, value: relax.Expr, rank: int) -> relax.Expr:
    """A single element with this rank; any other tensor, or one that has it, as it is."""
    value = builder.normalize(value)
    if value.ty.ndim == rank or not is_single(value.ty):
        return value
    return builder.emit(relax.op.reshape(value, [1] * rank))


def before_first_trip(
    builder: relax.BlockBuilder, value: relax.Expr, ty: relax.TensorType
) -> relax.Expr:
    """A carried value of the type; zeros of it for one that no trip reads."""
    if is_single(ty):
        value = single_of_rank(builder, value, ty.ndim)
    if not is_other(value.ty, ty):
        return value
    return relax.const(np.zeros(dimensions(ty) or (), str(ty.dtype)))


def is_other(old: relax.TensorType, new: relax.TensorType) -> bool:
    """Whether ``new`` is another type, of a known shape."""
    shape = static_shape_of(new)
    same_kind = new.ndim == old.ndim and str(new.dtype) == str(old.dtype)
    return shape is not None and not (same_kind and shape == static_shape_of(old))


def is_single(ty: relax.TensorType) -> bool:
    return ty.ndim >= 0 and set(dimensions(ty) or (() if not ty.ndim else (None,))) <= {1}


def known_scalar(value: relax.Expr | None) -> int | None:
    """A scalar's value; ``None`` where a run computes it."""
    known = None if value is None else array_of(value)
    return None if known is None else int(known.item())


def with_own_extents(ty: relax.TensorType) -> relax.TensorType:
    """The type with new names for the extents that only a run knows."""
    dims = dimensions(ty) or (None,) * ty.ndim
    shape = [tirx.Var("extent", "int64") if dim is None else dim for dim in dims]
    return relax.TensorType(shape, str(ty.dtype))


def erased(ty: relax.TensorType) -> relax.TensorType:
    """The type as far as every call knows it."""
    dims = dimensions(ty)
    if dims is None or None in dims:
        return relax.TensorType(dtype=str(ty.dtype), ndim=ty.ndim)
    return relax.TensorType(list(dims), str(ty.dtype))
