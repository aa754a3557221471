"""Which rows of a matrix are distinct: a stable merge sort of their numbers, then one walk.

rows      b a b c a          order   1 4 0 2 3       (a a b b c)
first     1 0 3              inverse 1 0 1 2 0       counts 2 2 1
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.node import Node

_INDEX = "int64"


@dataclass(frozen=True)
class DistinctRows:
    """int64 vectors: first place and number of each distinct row, of which ``count`` are valid.

    ``inverse`` has the place among the distinct rows of every row; ``count`` has one element.
    """

    first: relax.Var
    inverse: relax.Var
    counts: relax.Var
    count: relax.Var


def distinct_rows(
    node: Node, rows: relax.Expr, number: int, width: int, is_sorted: bool
) -> DistinctRows:
    """The distinct rows of ``number x width`` elements, sorted or in the order of first places."""
    order = _sorted_places(node, rows, number, width)

    def body(rows, order, first, inverse, counts, count, group, differs) -> None:  # type: ignore[no-untyped-def]
        count[0] = T.int64(0)
        with T.serial(0, T.int64(number)) as i:
            place = order[i]
            before = order[tirx.max(i - T.int64(1), T.int64(0))]
            differs[0] = tirx.Select(i == 0, T.int64(1), T.int64(0))
            with T.serial(0, T.int64(width)) as j:
                unequal = rows[before * width + j] != rows[place * width + j]
                differs[0] = tirx.Select(unequal, T.int64(1), differs[0])
            with T.If(differs[0] == 1), T.Then():
                count[0] = count[0] + T.int64(1)
                first[count[0] - T.int64(1)] = place
                counts[count[0] - T.int64(1)] = T.int64(0)
            inverse[place] = count[0] - T.int64(1)
            counts[count[0] - T.int64(1)] = counts[count[0] - T.int64(1)] + T.int64(1)
        if not is_sorted:
            _by_first_place(first, inverse, counts, group, count, number)

    vector = ((number,), _INDEX)
    one = ((1,), _INDEX)
    outputs = [vector, vector, vector, one, ((2 * number,), _INDEX), one]
    return DistinctRows(*emit_loops(node, "distinct_rows", [rows, order], outputs, body)[:4])


def _by_first_place(first, inverse, counts, group, count, number: int) -> None:  # type: ignore[no-untyped-def]
    """Number the groups anew in the order of their first rows; the sort was stable.

    ``group`` is workspace: the new number of each group, then the count of each new number.
    """
    seen = count[0]
    with T.serial(0, seen) as g:
        group[g] = T.int64(-1)
    count[0] = T.int64(0)
    with T.serial(0, T.int64(number)) as i:
        old = inverse[i]
        with T.If(group[old] < 0), T.Then():
            group[old] = count[0]
            group[T.int64(number) + count[0]] = counts[old]
            first[count[0]] = i
            count[0] = count[0] + T.int64(1)
        inverse[i] = group[inverse[i]]
    with T.serial(0, count[0]) as g:
        counts[g] = group[T.int64(number) + g]


def _sorted_places(node: Node, rows: relax.Expr, number: int, width: int) -> relax.Var:
    """The numbers of the rows in the order of a stable ascending sort, column by column."""

    def body(rows, order, other, place) -> None:  # type: ignore[no-untyped-def]
        with T.serial(0, T.int64(number)) as i:
            order[i] = i
        with T.serial(0, T.int64(width)) as backward:
            column = T.int64(width - 1) - backward
            run = 1
            while run < number:
                _merge_runs(rows, order, other, place, (run, number, width, column))
                run *= 2

    outputs = [((number,), _INDEX), ((number,), _INDEX), ((2,), _INDEX)]
    return emit_loops(node, "sorted_places", [rows], outputs, body)[0]


def _merge_runs(rows, order, other, place, extents) -> None:  # type: ignore[no-untyped-def]
    """Sorted runs of ``run`` places become runs of twice as many; equal elements keep their order.

    ``place`` is workspace: where the left and the right run are read next.
    """
    run, number, width, column = extents
    with T.serial(0, T.int64(-(-number // (2 * run)))) as pair:
        start = pair * T.int64(2 * run)
        middle = tirx.min(start + T.int64(run), T.int64(number))
        end = tirx.min(start + T.int64(2 * run), T.int64(number))
        place[0] = start
        place[1] = middle
        with T.serial(start, end) as i:
            left = order[tirx.min(place[0], T.int64(number - 1))]
            right = order[tirx.min(place[1], T.int64(number - 1))]
            is_smaller = rows[right * width + column] < rows[left * width + column]
            takes_right = tirx.all(place[1] < end, tirx.any(place[0] >= middle, is_smaller))
            with T.If(takes_right):
                with T.Then():
                    other[i] = right
                    place[1] = place[1] + T.int64(1)
                with T.Else():
                    other[i] = left
                    place[0] = place[0] + T.int64(1)
    with T.serial(0, T.int64(number)) as i:
        order[i] = other[i]
