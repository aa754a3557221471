"""Non-maximum suppression of boxes, for each image and class on its own.

candidates   the boxes above the score threshold, in a row of each (image, class)
chosen       each row: the best box that is left stays unless one that stayed covers it; of equal
             scores the first box comes first
selected     the rows one after another, as (image, class, box)
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.best_of_rows import heap_of_row, place_of
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.known import Extent


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
        with T.parallel(0, extents.rows) as r:
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
    which 100 stay took 0.7 of 0.8 ms (Zen 4).
    """
    count = extents.boxes

    def body(boxes, scores, places, counts, max_boxes, max_overlap, chosen, numbers, *work) -> None:  # type: ignore[no-untyped-def]
        stays, taken, left, members = work
        with T.parallel(0, extents.rows) as r:
            image = tirx.indexdiv(r, extents.classes) * count
            start, length = r * count, tirx.Cast("int64", counts[r])
            heap = heap_of_row(members, start, length, "float32", largest=True)
            with T.serial(0, length) as i:
                # The root is the smallest member, and shall be the best one.
                members[start + i] = -heap.member(scores[start + i], i)
            heap.build()
            numbers[r], left[r] = T.int32(0), length
            with T.While(tirx.all(left[r] > T.int64(0), _fits(numbers[r], max_boxes))):
                taken[r] = places[start + place_of(-members[start])]
                left[r] = left[r] - T.int64(1)
                heap.drop_root(left[r])
                stays[r] = T.int32(1)
                with T.serial(0, numbers[r]) as j, T.If(stays[r] == 1), T.Then():
                    overlaps = _overlap_exceeds(
                        _corners(boxes, image + chosen[start + j], centered),
                        _corners(boxes, image + taken[r], centered),
                        max_overlap[0],
                    )
                    with T.If(overlaps), T.Then():
                        stays[r] = T.int32(0)
                with T.If(stays[r] == 1), T.Then():
                    chosen[start + numbers[r]] = taken[r]
                    numbers[r] = numbers[r] + 1

    row, of_boxes = (extents.rows,), (extents.rows, count)
    outputs = [(of_boxes, "int32"), *[(row, "int32")] * 3, (row, "int64"), (of_boxes, "int64")]
    return emit_loops(node, "chosen_boxes", [boxes, *found, *limits], outputs, body)[:2]


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


def _overlap_exceeds(
    one: tuple[tirx.Expr, ...], other: tuple[tirx.Expr, ...], limit: tirx.Expr
) -> tirx.Expr:
    """Whether intersection / union of two boxes exceeds the limit; an empty box overlaps none."""
    zero = T.float32(0)
    height = tirx.max(tirx.min(one[2], other[2]) - tirx.max(one[0], other[0]), zero)
    width = tirx.max(tirx.min(one[3], other[3]) - tirx.max(one[1], other[1]), zero)
    shared = height * width
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    union = areas[0] + areas[1] - shared
    solid = tirx.all(shared > zero, areas[0] > zero, areas[1] > zero, union > zero)
    return tirx.all(solid, shared / union > limit)
