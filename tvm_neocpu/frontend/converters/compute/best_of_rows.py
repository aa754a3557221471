"""The best ``k`` elements of each row, in order.

A few of many, by a heap of ``k`` whose root is the worst of them:

    heap = the first k                           # the root is the worst
    for each element behind them:
        if it beats the root: it takes the root's place and sinks
    while the heap shrinks: its root goes to its end

More, by the order of the k-th best:

    least = the largest t for which at least k elements are t or better       # halving, vectors
    members = the elements better than least, then the first ones that equal it
    runs of the members are sorted by counting the better ones, then merged

Nearly all elements of a long row cost one comparison, with the root of a heap. A member is one
integer: the value's order in the upper half, the place in the lower one. So no two are equal, and
sinking has one comparison and no branch for the choice of a child, which would be mispredicted
every other time (Zen 3, 300 of 1000: 41 us a row with branches, 31 without, of values and places).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute import selected_members
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.node import Node

_INDEX = "int64"
_LOW_HALF = 2**32 - 1
# With fewer elements in all a fork costs more than the other cores save.
_MIN_PARALLEL = 8192
# As many elements cost as much as sorting one.
_SORTED = 8


def _order_of_float(value: tirx.Expr) -> tirx.Expr:
    """An int32 that is larger for a larger float32; NaN is the largest, as NumPy sorts it."""
    bits = tirx.reinterpret("int32", value)
    turned = tirx.bitwise_xor(bits, tirx.bitwise_and(bits >> 31, T.int32(0x7FFFFFFF)))
    ordered = tirx.Select(value == T.float32(0), T.int32(0), turned)  # -0.0 equals 0.0
    return tirx.Select(tirx.isnan(value), T.int32(0x7FFFFFFF), ordered)


def _order_of_integer(value: tirx.Expr) -> tirx.Expr:
    return tirx.Cast("int32", value)


def member_of(order: tirx.Expr, place: tirx.Expr) -> tirx.Expr:
    """Of equal orders the first place is the larger one."""
    return (tirx.Cast(_INDEX, order) << 32) + (T.int64(_LOW_HALF) - place)


def place_of(member: tirx.Expr) -> tirx.Expr:
    """Where in its row a member was."""
    return T.int64(_LOW_HALF) - tirx.bitwise_and(member, T.int64(_LOW_HALF))


# Element types whose order fits half of an int64.
ORDERS: Mapping[str, Callable[[tirx.Expr], tirx.Expr]] = {
    "float32": _order_of_float,
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), _order_of_integer),
}


@dataclass(frozen=True)
class Heap:
    """A row's ``k`` best as integers, from ``start`` on, and workspace for the one that sinks.

    A better element is a larger integer. Of equal elements the first one is better, as ONNX Runtime
    has it.
    """

    members: T.Buffer
    start: tirx.Expr
    k: tirx.Expr
    item: T.Buffer
    at: T.Buffer
    dtype: str
    largest: bool

    def order(self, value: tirx.Expr) -> tirx.Expr:
        """An int32 that is larger for a better value."""
        order = ORDERS[self.dtype](value)
        return order if self.largest else tirx.bitwise_not(order)

    def member(self, value: tirx.Expr, place: tirx.Expr) -> tirx.Expr:
        return member_of(self.order(value), place)

    def place(self, number: tirx.Expr | int) -> tirx.Expr:
        """Where in its row a member was."""
        return place_of(self.members[self.start + number])

    def may_beat(self, one: tirx.Expr, other: tirx.Expr) -> tirx.Expr:
        """Whether a value is better than another one; true where either is NaN."""
        beats = one > other if self.largest else one < other
        if self.dtype != "float32":
            return beats
        # LLVM makes one comparison of it. TVM makes an ordered one of Not(one <= other).
        return tirx.any(beats, tirx.isnan(one), tirx.isnan(other))

    def sink(self, hole: tirx.Expr | int, size: tirx.Expr | int) -> None:
        """Put the item at the hole or below it, where all that is below is better."""
        members, start, at, item = self.members, self.start, self.at, self.item
        at[0] = tirx.Cast(_INDEX, hole)
        at[1] = T.int64(2) * at[0] + T.int64(1)
        with T.While(at[1] < size):
            left, right = at[1], tirx.min(at[1] + T.int64(1), size - T.int64(1))
            at[1] = tirx.Select(members[start + right] < members[start + left], right, left)
            with T.If(members[start + at[1]] < item[0]):
                with T.Then():
                    members[start + at[0]] = members[start + at[1]]
                    at[0] = at[1]
                    at[1] = T.int64(2) * at[0] + T.int64(1)
                with T.Else():
                    at[1] = tirx.Cast(_INDEX, size)
        members[start + at[0]] = item[0]

    def build(self) -> None:
        """Make a heap of the members, from the last parent up."""
        parents = tirx.indexdiv(self.k, T.int64(2))
        with T.serial(0, parents) as up:
            parent = parents - T.int64(1) - up
            self.item[0] = self.members[self.start + parent]
            self.sink(parent, self.k)

    def drop_root(self, size: tirx.Expr) -> None:
        """Take the root out of a heap that has ``size`` members then."""
        self.item[0] = self.members[self.start + size]
        self.sink(0, size)

    def sort(self) -> None:
        """The root goes behind the heap, which the last member enters again; k - 1 times."""
        with T.serial(0, self.k - T.int64(1)) as taken:
            last = self.k - T.int64(1) - taken
            self.item[0] = self.members[self.start + last]
            self.members[self.start + last] = self.members[self.start]
            self.sink(0, last)


def heap_of_row(
    members: T.Buffer, start: tirx.Expr, k: tirx.Expr, dtype: str, largest: bool
) -> Heap:
    """An empty one in the row of ``members`` that begins there."""
    item = T.buffer_proxy(T.alloc_buffer((1,), _INDEX, scope="local"))
    at = T.buffer_proxy(T.alloc_buffer((2,), _INDEX, scope="local"))
    return Heap(members, start, k, item, at, dtype, largest)


def best_of_rows(
    node: Node, data: relax.Expr, axis: int, k: int, largest: bool
) -> tuple[relax.Var, relax.Var]:
    """Values and int64 places of the best ``k`` elements along ``axis``, the best one first.

    ``0 < k <= shape[axis]``; the shape is static, the type one of :data:`ORDERS`.
    """
    shape, dtype = tuple(int(extent) for extent in data.ty.shape.values), str(data.ty.dtype)
    length, inner = shape[axis], prod(shape[axis + 1 :])
    rows = prod(shape) // length
    selects = selected_members.pays(length, k)
    kept = selected_members.padded(k) if selects else k
    work = prod(shape) + selects * rows * k * _SORTED

    def body(data, values, places, members, *more) -> None:  # type: ignore[no-untyped-def]
        loop = T.parallel if rows > 1 and work >= _MIN_PARALLEL else T.serial
        with loop(0, T.int64(rows)) as row:
            start = row * T.int64(kept)
            outside, inside = tirx.indexdiv(row, T.int64(inner)), tirx.indexmod(row, T.int64(inner))

            def element(place: tirx.Expr) -> tirx.Expr:
                return data[outside * T.int64(length * inner) + place * T.int64(inner) + inside]

            heap = heap_of_row(members, start, T.int64(k), dtype, largest)
            found = members
            if selects:
                orders, spare = more
                begin = row * T.int64(length)
                with T.serial(0, T.int64(length)) as i:
                    orders[begin + i] = heap.order(element(i))
                starts, sizes = (begin, start), (length, k)
                selected_members.select(orders, members, starts, sizes, member_of)
                found = selected_members.sort(members, spare, start, k)
            else:
                root = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
                _by_heap(heap, element, root, k, length)
            with T.serial(0, T.int64(k)) as i:
                to = outside * T.int64(k * inner) + i * T.int64(inner) + inside
                values[to] = element(place_of(found[start + i]))
                places[to] = place_of(found[start + i])

    out = (*shape[:axis], k, *shape[axis + 1 :])
    outputs = [(out, dtype), (out, _INDEX), ((rows, kept), _INDEX)]
    if selects:
        outputs += [((rows, length), "int32"), ((rows, kept), _INDEX)]
    values, places, *_ = emit_loops(node, "best_of_rows", [data], outputs, body)
    return values, places


def _by_heap(
    heap: Heap,
    element: Callable[[tirx.Expr], tirx.Expr],
    root: T.Buffer,
    k: int,
    length: int,
) -> None:
    with T.serial(0, T.int64(k)) as i:
        heap.members[heap.start + i] = heap.member(element(i), i)
    heap.build()
    root[0] = element(heap.place(0))
    with (
        T.serial(T.int64(k), T.int64(length)) as i,
        T.If(heap.may_beat(element(i), root[0])),
        T.Then(),
    ):
        heap.item[0] = heap.member(element(i), i)
        with T.If(heap.item[0] > heap.members[heap.start]), T.Then():
            heap.sink(0, T.int64(k))
            root[0] = element(heap.place(0))
    heap.sort()
