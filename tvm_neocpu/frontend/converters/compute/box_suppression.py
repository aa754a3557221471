"""Non-maximum suppression of boxes, for each image and class on its own.

candidates   the boxes above the score threshold, in a row of each (image, class)
chosen       each row: the best box that is left stays unless one that stayed covers it; of equal
             scores the first box comes first
selected     the rows one after another, as (image, class, box)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.best_of_rows import heap_of_row, place_of
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.known import Extent
from tvm_neocpu.frontend.converters.node import Node

# Boxes that one box is compared with at once: a vector of the widest unit.
LANES = 16
# What is kept of a box that stays: its corners y, x, y, x and its area, each in a row of its own.
_CORNERS = 4


@dataclass(frozen=True)
class ScoreExtents:
    """Of the scores ``(images, classes, boxes)``; ``selected`` bounds the length of the result."""

    images: Extent
    classes: Extent
    boxes: Extent
    selected: Extent

    @property
    def rows(self) -> Extent:
        return self.images * self.classes


def suppress_boxes(
    node: Node,
    boxes: relax.Expr,
    scores: relax.Expr,
    limits: tuple[relax.Expr, relax.Expr, relax.Expr],
    extents: ScoreExtents,
    centered: bool,
) -> tuple[relax.Var, relax.Var]:
    """int64 ``(selected, 3)``, of which the first rows count, and their number ``(1,)``.

    ``boxes`` are ``(images, boxes, 4)``: two corners ``y, x, y, x``, or, ``centered``, the center
    and the size ``x, y, w, h``. ``limits`` are one-element vectors: int64 boxes for each class, the
    overlap (intersection over union) above which the weaker box goes, the score to exceed.
    """
    max_boxes, max_overlap, min_score = limits
    scores_, places, counts = _candidates(node, scores, min_score, extents)
    found = (scores_, places, counts)
    chosen, numbers = _chosen(node, boxes, found, (max_boxes, max_overlap), extents, centered)
    selected, total = emit_loops(
        node,
        "selected_boxes",
        [chosen, numbers],
        [((extents.selected, 3), "int64"), ((1,), "int64")],
        lambda *views: _concatenate(*views, extents),
    )
    return selected, total


def _candidates(
    node: Node, scores: relax.Expr, min_score: relax.Expr, extents: ScoreExtents
) -> list[relax.Var]:
    """Scores and places of the boxes above the threshold, a row each; the length of each row."""
    row = (extents.rows, extents.boxes)

    def body(scores, min_score, kept, places, counts) -> None:  # type: ignore[no-untyped-def]
        with _each_row(extents) as r:
            counts[r] = T.int32(0)
            with T.serial(0, extents.boxes) as k:
                score = scores[r * extents.boxes + k]
                with T.If(score > min_score[0]), T.Then():
                    kept[r * extents.boxes + counts[r]] = score
                    places[r * extents.boxes + counts[r]] = tirx.Cast("int32", k)
                    counts[r] = counts[r] + 1

    outputs = [(row, "float32"), (row, "int32"), ((extents.rows,), "int32")]
    return emit_loops(node, "box_candidates", [scores, min_score], outputs, body)


def _chosen(
    node: Node,
    boxes: relax.Expr,
    found: tuple[relax.Expr, relax.Expr, relax.Expr],
    limits: tuple[relax.Expr, relax.Expr],
    extents: ScoreExtents,
    centered: bool,
) -> list[relax.Var]:
    """Boxes that stay, a row for each (image, class), and the length of each row.

    A heap gives the best box that is left, as often as boxes may stay: sorting 10,000 boxes of
    which 100 stay took 0.7 of 0.8 ms (Zen 4). The corners of those that stayed lie side by side, so
    that a vector of them is compared with the next one at once.
    """
    count = extents.boxes
    width = count + LANES

    def body(boxes, scores, places, counts, max_boxes, max_overlap, chosen, numbers, *work) -> None:  # type: ignore[no-untyped-def]
        taken, left, members, kept = work
        with _each_row(extents) as r:
            image = tirx.indexdiv(r, extents.classes) * count
            start, length = r * count, tirx.Cast("int64", counts[r])
            heap = heap_of_row(members, start, length, "float32", largest=True)
            covered = T.buffer_proxy(T.alloc_buffer((1,), "int32", scope="local"))
            hits = T.buffer_proxy(T.alloc_buffer((LANES,), "int32", scope="local"))
            box = T.buffer_proxy(T.alloc_buffer((_CORNERS + 1,), "float32", scope="local"))

            def part(place: int, lane: tirx.Expr) -> tirx.Expr:
                """Where a corner, or the area, of the box in this lane is kept."""
                return (r * (_CORNERS + 1) + T.int64(place)) * width + lane

            def stayed() -> tirx.Expr:
                return tirx.Cast("int64", numbers[r])

            with T.serial(0, length) as i:
                # The root is the smallest member, and shall be the best one.
                members[start + i] = -heap.member(scores[start + i], i)
            heap.build()
            numbers[r], left[r] = T.int32(0), length
            with T.While(tirx.all(left[r] > T.int64(0), _fits(numbers[r], max_boxes))):
                taken[r] = places[start + place_of(-members[start])]
                left[r] = left[r] - T.int64(1)
                heap.drop_root(left[r])
                corners = _corners(boxes, image + taken[r], centered)
                for place, value in enumerate((*corners, _area(corners))):
                    box[place] = value
                covered[0] = T.int32(0)
                with (
                    T.serial(0, (stayed() + T.int64(LANES - 1)) // T.int64(LANES)) as group,
                    T.If(covered[0] == 0),
                    T.Then(),
                ):
                    with T.vectorized(0, T.int64(LANES)) as lane:
                        at = group * T.int64(LANES) + lane
                        one = tuple(kept[part(place, at)] for place in range(_CORNERS + 1))
                        other = tuple(box[place] for place in range(_CORNERS + 1))
                        overlaps = _overlap_exceeds(one, other, max_overlap[0])
                        hits[lane] = tirx.Cast("int32", overlaps)
                    covered[0] = functools.reduce(
                        tirx.bitwise_or, (hits[lane] for lane in range(LANES))
                    )
                with T.If(covered[0] == 0), T.Then():
                    with T.If(numbers[r] % LANES == 0), T.Then():
                        # The lanes of a new vector are empty boxes, which overlap none.
                        for place in range(_CORNERS + 1):
                            with T.vectorized(0, T.int64(LANES)) as lane:
                                kept[part(place, stayed() + lane)] = T.float32(0)
                    for place in range(_CORNERS + 1):
                        kept[part(place, stayed())] = box[place]
                    chosen[start + numbers[r]] = taken[r]
                    numbers[r] = numbers[r] + 1

    row, of_boxes = (extents.rows,), (extents.rows, count)
    outputs = [(of_boxes, "int32"), (row, "int32"), (row, "int32"), (row, "int64")]
    outputs += [(of_boxes, "int64"), ((extents.rows * (_CORNERS + 1) * width,), "float32")]
    return emit_loops(node, "chosen_boxes", [boxes, *found, *limits], outputs, body)[:2]


def _each_row(extents: ScoreExtents) -> T.frame.ForFrame:
    """A loop over the rows on all cores; one row wakes none."""
    alone = isinstance(extents.rows, int) and extents.rows == 1
    return (T.serial if alone else T.parallel)(0, extents.rows)


def _fits(number: tirx.Expr, max_boxes: T.Buffer) -> tirx.Expr:
    return tirx.Cast("int64", number) < max_boxes[0]


def _concatenate(chosen, numbers, selected, total, extents: ScoreExtents) -> None:  # type: ignore[no-untyped-def]
    total[0] = T.int64(0)
    with T.serial(0, extents.rows) as r, T.serial(0, numbers[r]) as j:
        at = total[0] * 3
        selected[at] = tirx.Cast("int64", tirx.indexdiv(r, extents.classes))
        selected[at + 1] = tirx.Cast("int64", tirx.indexmod(r, extents.classes))
        selected[at + 2] = tirx.Cast("int64", chosen[r * extents.boxes + j])
        total[0] = total[0] + 1


def _corners(boxes: T.Buffer, place: tirx.Expr, centered: bool) -> tuple[tirx.Expr, ...]:
    """``y_min, x_min, y_max, x_max`` of a box."""
    a, b, c, d = (boxes[place * 4 + part] for part in range(4))
    if centered:
        return b - d / 2, a - c / 2, b + d / 2, a + c / 2
    return tirx.min(a, c), tirx.min(b, d), tirx.max(a, c), tirx.max(b, d)


def _area(corners: Sequence[tirx.Expr]) -> tirx.Expr:
    return (corners[2] - corners[0]) * (corners[3] - corners[1])


def _overlap_exceeds(
    one: Sequence[tirx.Expr], other: Sequence[tirx.Expr], limit: tirx.Expr
) -> tirx.Expr:
    """Whether intersection / union of two boxes exceeds the limit; an empty box overlaps none.

    A box is its corners and its area.
    """
    zero = T.float32(0)
    height = tirx.max(tirx.min(one[2], other[2]) - tirx.max(one[0], other[0]), zero)
    width = tirx.max(tirx.min(one[3], other[3]) - tirx.max(one[1], other[1]), zero)
    shared = height * width
    union = one[_CORNERS] + other[_CORNERS] - shared
    solid = tirx.all(shared > zero, one[_CORNERS] > zero, other[_CORNERS] > zero, union > zero)
    return tirx.all(solid, shared / union > limit)
