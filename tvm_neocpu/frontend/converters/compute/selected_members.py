"""The best ``k`` of a row by the order of the k-th best, sorted by merging.

A heap costs some nine cycles a level for each element that enters it, and again for each that
leaves. Counting the elements above a bound is a loop of vectors, of which there are 32 at most; two
sorted runs are merged from both ends at once, two chains without a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log, log2

from tvm import tirx
from tvm.script.ir_builder import tirx as T

_INDEX = "int64"
# Members of a run that is sorted by counting.
RUN = 32
# A shape that none of a row's members has: below all of them, and no two alike.
_LOWEST = -(2**63)
# Cycles: of a level of a heap; of an element that is turned into its order, counted 32 times and
# collected; of a member in its run, and in a merge.
_LEVEL, _ELEMENT, _IN_RUN, _IN_MERGE = 9, 5.5, 12, 4


def padded(k: int) -> int:
    """Places that ``k`` members take: runs that are merged in pairs."""
    return RUN << max(0, ceil(log2(k / RUN)))


def pays(length: int, k: int) -> bool:
    """Whether ``k`` of ``length`` elements are found and sorted faster than by a heap."""
    heap = length + _LEVEL * log2(k + 1) * k * (2 + log(length / k))
    places = padded(k)
    return heap > _ELEMENT * length + places * (_IN_RUN + _IN_MERGE * log2(places / RUN))


def select(
    orders: T.Buffer,
    members: T.Buffer,
    starts: tuple[tirx.Expr, tirx.Expr],
    sizes: tuple[int, int],
    member: Callable[[tirx.Expr, tirx.Expr], tirx.Expr],
) -> None:
    """Write the best members of a row of int32 ``orders``, unsorted, and fill their places up.

    ``starts`` of the row and of its members, ``sizes``: its elements and ``k``. A larger order is
    better; of equal ones the first. ``member(order, place)``: an int64 that sorts alike.
    """
    (row, start), (length, k) = starts, sizes
    bounds = T.buffer_proxy(T.alloc_buffer((3,), _INDEX, scope="local"))  # least, beyond, middle
    count = T.buffer_proxy(T.alloc_buffer((1,), "int32", scope="local"))
    found = T.buffer_proxy(T.alloc_buffer((1,), _INDEX, scope="local"))
    bounds[0], bounds[1] = T.int64(-(2**31)), T.int64(2**31)
    with T.While(bounds[1] - bounds[0] > T.int64(1)):
        bounds[2] = (bounds[0] + bounds[1]) >> T.int64(1)
        count[0] = T.int32(0)
        middle = tirx.Cast("int32", bounds[2])
        with T.serial(0, T.int64(length)) as i:
            count[0] = count[0] + tirx.Cast("int32", orders[row + i] >= middle)
        with T.If(count[0] >= T.int32(k)):
            with T.Then():
                bounds[0] = bounds[2]
                with T.If(count[0] == T.int32(k)), T.Then():
                    bounds[1] = bounds[2]
            with T.Else():
                bounds[1] = bounds[2]
    least = tirx.Cast("int32", bounds[0])
    found[0] = T.int64(0)

    def collect(i: tirx.Expr) -> None:
        members[start + found[0]] = member(orders[row + i], i)
        found[0] = found[0] + tirx.Cast(_INDEX, orders[row + i] > least)

    with T.serial(0, T.int64(length)) as i:
        # All k may be above the least. What is written in vain behind them is filled up below, or
        # has no place in this row.
        if padded(k) > k:
            collect(i)
        else:
            with T.If(found[0] < T.int64(k)), T.Then():
                collect(i)
    with T.serial(0, T.int64(length)) as i:
        last = tirx.all(orders[row + i] == least, found[0] < T.int64(k))
        with T.If(last), T.Then():
            members[start + found[0]] = member(orders[row + i], i)
            found[0] = found[0] + T.int64(1)
    with T.serial(T.int64(k), T.int64(padded(k))) as i:
        members[start + i] = T.int64(_LOWEST) + i


def sort(members: T.Buffer, spare: T.Buffer, start: tirx.Expr, k: int) -> T.Buffer:
    """Sort the members of a row, the largest first; returns which of the two buffers has them."""
    places = padded(k)
    ranks = T.buffer_proxy(T.alloc_buffer((RUN,), _INDEX, scope="local"))
    with T.serial(0, T.int64(places // RUN)) as run:
        begin = start + run * T.int64(RUN)
        with T.serial(0, T.int64(RUN)) as a:
            ranks[a] = T.int64(0)
        with T.serial(0, T.int64(RUN)) as b, T.serial(0, T.int64(RUN)) as a:
            better = members[begin + b] > members[begin + a]
            ranks[a] = ranks[a] + tirx.Cast(_INDEX, better)
        with T.serial(0, T.int64(RUN)) as a:
            spare[begin + ranks[a]] = members[begin + a]
    source, target = spare, members
    width = RUN
    while width < places:
        _merge(source, target, start, places, width)
        source, target, width = target, source, 2 * width
    return source


def _merge(source: T.Buffer, target: T.Buffer, start: tirx.Expr, places: int, width: int) -> None:
    """Merge pairs of runs of ``width``: the larger half from the front, the other from behind.

    Each half takes ``width`` members, so that no place leaves its run before the last one.
    """
    at = T.buffer_proxy(T.alloc_buffer((4,), _INDEX, scope="local"))
    with T.serial(0, T.int64(places // (2 * width))) as pair:
        begin = start + pair * T.int64(2 * width)
        at[0], at[1] = begin, begin + T.int64(width)
        at[2], at[3] = begin + T.int64(width - 1), begin + T.int64(2 * width - 1)
        with T.serial(0, T.int64(width)) as i:
            left, right = source[at[0]], source[at[1]]
            target[begin + i] = tirx.max(left, right)
            is_left = tirx.Cast(_INDEX, left > right)
            at[1] = at[1] + T.int64(1) - is_left
            at[0] = begin + i + T.int64(width + 1) - (at[1] - begin)
            left, right = source[at[2]], source[at[3]]
            target[begin + T.int64(2 * width - 1) - i] = tirx.min(left, right)
            at[2] = at[2] - tirx.Cast(_INDEX, left < right)
            at[3] = begin + T.int64(3 * width - 3) - i - (at[2] - begin)
