"""NonMaxSuppression: any limits, constant or computed; the length of the result is a run's."""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.box_suppression import ScoreExtents, suppress_boxes
from tvm_neocpu.frontend.converters.compute.run_time_extent import extents_from, head
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def non_max_suppression(node: Node) -> relax.Expr:
    """Boxes ``(N, K, 4)`` and scores ``(N, C, K)`` -> int64 ``(selected, 3)``: image, class, box.

    Without a limit for the boxes of a class, none is selected: ONNX's default is 0.
    """
    boxes, scores = node.required(0), node.required(1)
    for value in (boxes, scores):
        if str(value.ty.dtype) != "float32":
            raise UnsupportedOperatorError(f"boxes and scores of type {value.ty.dtype}")
    if int(boxes.ty.ndim) != 3 or int(scores.ty.ndim) != 3:
        raise UnsupportedOperatorError("boxes and scores must be of rank 3")
    if node.input(2) is None or 0 in (static_shape_of(scores.ty) or ()):
        return relax.const(np.zeros((0, 3), "int64"), "int64")
    limits = (
        _limit(node, 2, 0, "int64"),
        _limit(node, 3, 0.0, "float32"),
        _limit(node, 4, -np.inf, "float32"),
    )
    centered = bool(node.attributes["center_point_box"])
    extents = _extents(node, scores)
    selected, total = suppress_boxes(node, boxes, scores, limits, extents, centered)
    (count,) = extents_from(node, total, ["boxes_selected"], extents.selected)
    return head(node, selected, 0, count)


def _extents(node: Node, scores: relax.Expr) -> ScoreExtents:
    images, classes, boxes = scores.ty.shape.values
    most = boxes
    if static_shape_of(scores.ty) is not None:
        most = min(int(boxes), _max_boxes(node, int(boxes)))
        images, classes, boxes = int(images), int(classes), int(boxes)
    return ScoreExtents(images, classes, boxes, images * classes * most)


def _max_boxes(node: Node, boxes: int) -> int:
    """The limit for each class where it is a constant, else the number of boxes."""
    try:
        value = node.constant(2)
    except UnsupportedOperatorError:
        return boxes
    return boxes if value is None else max(int(value.item()), 1)


def _limit(node: Node, place: int, default: float, dtype: str) -> relax.Expr:
    """An input of one element as a vector."""
    value = node.input(place)
    if value is None:
        return relax.const(np.array([default], dtype), dtype)
    return node.emit(relax.op.reshape(value, [1]))
