"""The pieces that the trips of a loop make, one behind the other in memory that grows.

room 0                  nothing yet
room 4, 12, 28, ...     doubled where a piece does not fit: each is copied twice on average
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from tvm import relax, te, tirx
from tvm.script import from_source

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

Shape = tuple[int | tirx.Var, ...]
# A known number of trips gets all its room at once, up to this many bytes.
_AT_ONCE = 1 << 26
_FIRST_PIECES = 4


@dataclass(frozen=True)
class Element:
    """A piece that each trip makes: its extents, ``None`` for one that a run knows, and type.

    Pieces are stacked along a new axis; or, with an ``axis``, joined along that one, which comes
    first in ``dims`` and in memory. Its extent is ``None`` then, unless all trips are known.
    """

    dims: tuple[int | None, ...]
    dtype: str
    axis: int | None = None

    @classmethod
    def of(cls, ty: relax.TensorType, axis: int | None, trips: int | None) -> Element:
        """``trips`` is how many there are, ``None`` where only a run knows.

        Raises UnsupportedOperatorError for an axis that the pieces do not have.
        """
        dims = dimensions(ty) or (None,) * ty.ndim
        if axis is None:
            return cls(dims, str(ty.dtype))
        if not -len(dims) <= axis < len(dims):
            raise UnsupportedOperatorError(f"axis {axis} is outside pieces of rank {len(dims)}")
        axis %= len(dims)
        rows = None if trips is None else dims[axis]
        return cls((rows, *dims[:axis], *dims[axis + 1 :]), str(ty.dtype), axis)

    @property
    def open(self) -> tuple[bool, ...]:
        """One for each extent that a run knows: whether it counts the rows of all trips."""
        counts = self.axis is not None
        return tuple(counts and not at for at, dim in enumerate(self.dims) if dim is None)

    def named(self) -> tuple[int | tirx.Var, ...]:
        """The extents, with names for those that a run knows."""
        return tuple(tirx.Var("extent", "int64") if dim is None else dim for dim in self.dims)

    def laid_out(self, builder: relax.BlockBuilder, piece: relax.Expr) -> relax.Expr:
        """A piece as it stands in memory."""
        if not self.axis:
            return piece
        order = [self.axis, *(at for at in range(len(self.dims)) if at != self.axis)]
        return builder.emit(relax.op.permute_dims(piece, order))

    def whole(
        self,
        builder: relax.BlockBuilder,
        flat: relax.Expr,
        trips: tirx.Expr,
        shape: tuple[int | tirx.Var, ...],
    ) -> relax.Expr:
        """The result of all trips, of what stands in memory; ``shape`` is of :meth:`named`."""
        if self.axis is None:
            return _stacked(builder, flat, trips, shape)
        rows = shape[0] if self.dims[0] is None else trips * shape[0]
        joined = _stacked(builder, flat, rows, shape[1:])
        if not self.axis:
            return joined
        order = [*range(1, self.axis + 1), 0, *range(self.axis + 1, len(shape))]
        return builder.emit(relax.op.permute_dims(joined, order))


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


def _stacked(
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

__all__ = ["Element", "elements_of", "grown", "stored"]
