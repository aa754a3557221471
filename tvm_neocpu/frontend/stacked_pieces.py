"""The pieces that the trips of a loop make, one behind the other in memory that grows.

room 0                  nothing yet
room 4, 12, 28, ...     doubled where a piece does not fit: each is copied twice on average
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tvm import relax, te, tirx
from tvm.script import from_source

from tvm_neocpu.core.types import item_bytes

Shape = tuple[int | tirx.Var, ...]
# A known number of trips gets all its room at once, up to this many bytes.
_AT_ONCE = 1 << 26
_FIRST_PIECES = 4


def grown(
    builder: relax.BlockBuilder,
    buffer: relax.Var,
    used: tirx.Expr,
    piece: relax.Expr,
    trips: int | None,
) -> relax.Var:
    """The flat buffer, or a larger copy of it, with room for the piece of this trip.

    ``used`` elements are in it. ``trips`` is the most there will be, ``None`` where that is not
    known.
    """
    size, dtype = _size(piece), str(buffer.ty.dtype)
    room = buffer.ty.shape.values[0]
    more = 2 * room + _FIRST_PIECES * size
    is_known = trips is not None and isinstance(size, int)
    if is_known and trips * size * item_bytes(dtype) <= _AT_ONCE:
        more = tirx.IntImm("int64", trips * size)
    builder._begin_binding_block()

    def copied(old: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, dtype)
        inside = old.shape[0]
        return te.compute((more,), lambda k: tirx.if_then_else(k < inside, old[k], zero), "grown")

    larger = builder.emit_te(copied, buffer, primfunc_name_hint="grow")
    grow = relax.SeqExpr([builder._end_block()], larger)
    builder._begin_binding_block()
    same = builder.emit(buffer)
    keep = relax.SeqExpr([builder._end_block()], same)
    is_full = relax.prim_value(used + size > room)
    taken = builder.emit(relax.If(is_full, grow, keep))
    return builder.match_cast(taken, relax.TensorType([tirx.Var("room", "int64")], dtype))


def stored(
    builder: relax.BlockBuilder, buffer: relax.Var, piece: relax.Expr, used: tirx.Expr
) -> relax.Var:
    """The same buffer with the piece behind ``used`` elements. Nothing else may read it."""
    size, dtype = _size(piece), str(piece.ty.dtype)
    flat = builder.emit(relax.op.reshape(piece, [size]))
    text = _STORE if isinstance(size, int) else _STORE_ANY
    name = builder.add_func(from_source(text.format(size=size, dtype=dtype)), "store_piece")
    return builder.emit(relax.op.call_tir_inplace(name, [buffer, flat, used], 0, buffer.ty))


def stacked(
    builder: relax.BlockBuilder, flat: relax.Expr, rows: int | tirx.Expr, element: Shape
) -> relax.Var:
    """The pieces along a new first axis, or their rows one behind the other along the first one."""
    size = prod(element)

    def compute(data: te.Tensor) -> te.Tensor:
        def at(row: tirx.Var, *place: tirx.Var) -> tirx.Expr:
            index: tirx.Expr | int = 0
            for extent, each in zip(element, place, strict=True):
                index = index * extent + each
            return data[row * size + index]

        return te.compute((rows, *element), at, name="stacked")

    return builder.emit_te(compute, flat, primfunc_name_hint="stacked")


def elements_of(dims: Iterable[tirx.Expr]) -> int | tirx.Expr:
    """How many elements these extents have."""
    size = tirx.IntImm("int64", 1)
    for dim in dims:
        size = size * dim
    return int(size) if isinstance(size, tirx.IntImm) else size


def _size(piece: relax.Expr) -> int | tirx.Expr:
    return elements_of(piece.ty.shape.values)


_STORE = """
@T.prim_func(private=True, s_tir=True)
def store(handle: T.handle, piece: T.Buffer(({size},), "{dtype}"), used: T.int64):
    T.func_attr({{"tirx.noalias": True}})
    room = T.int64()
    pieces = T.match_buffer(handle, (room,), "{dtype}")
    for i in range({size}):
        with T.sblock("piece"):
            vi = T.axis.spatial({size}, i)
            pieces[used + vi] = piece[vi]
"""

_STORE_ANY = """
@T.prim_func(private=True, s_tir=True)
def store(handle: T.handle, other: T.handle, used: T.int64):
    T.func_attr({{"tirx.noalias": True}})
    room = T.int64()
    size = T.int64()
    pieces = T.match_buffer(handle, (room,), "{dtype}")
    piece = T.match_buffer(other, (size,), "{dtype}")
    for i in range(size):
        with T.sblock("piece"):
            vi = T.axis.spatial(size, i)
            pieces[used + vi] = piece[vi]
"""

__all__ = ["elements_of", "grown", "stacked", "stored"]
