"""NonMaxSuppression against ONNX Runtime: limits, box formats, ties, none selected."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Array, Case, check_together, node_model

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

# Boxes for each class, overlap, score; a limit that is missing is omitted.
LIMITS: tuple[tuple[float, ...], ...] = (
    (3, 0.5, 0.0),
    (100, 0.3, 0.4),
    (5, 0.0, 0.1),
    (10,),
    (),
)


def _boxes(images: int, count: int) -> Array:
    rng = np.random.default_rng(8)
    center = rng.uniform(0, 3, (images, count, 2))
    size = rng.uniform(0.3, 2, (images, count, 2))
    return np.concatenate([center - size / 2, center + size / 2], -1).astype("float32")


def _scores(*shape: int) -> Array:
    return np.random.default_rng(9).uniform(0, 1, shape).astype("float32")


def _limits(values: tuple[float, ...]) -> list[Array]:
    kinds = ("int64", "float32", "float32")
    return [np.array([value], kind) for value, kind in zip(values, kinds, strict=False)]


@pytest.mark.parametrize("centered", [0, 1])
def test_constant_limits(centered: int) -> None:
    named = {"center_point_box": centered}
    check_together(
        [
            Case("NonMaxSuppression", [_boxes(2, 20), _scores(2, 3, 20)], _limits(values), named)
            for values in LIMITS
        ]
    )


def test_more_boxes_stay_than_a_vector_has_lanes() -> None:
    boxes, scores = _boxes(2, 60), _scores(2, 3, 60)
    check_together(
        [
            Case("NonMaxSuppression", [boxes, scores], _limits((count, overlap, 0.05)))
            for count in (15, 16, 17, 60)
            for overlap in (0.5, 0.9)
        ]
    )


def test_limits_that_a_run_gives_and_ties() -> None:
    boxes, scores = _boxes(1, 9), _scores(1, 2, 9)
    turned = boxes[..., [2, 3, 0, 1]]
    check_together(
        [
            Case("NonMaxSuppression", [boxes, scores, *_limits((3, 0.5, 0.3))]),
            Case("NonMaxSuppression", [turned, scores], _limits((3, 0.5))),
            Case("NonMaxSuppression", [boxes, np.ones_like(scores)], _limits((5, 0.5))),
            Case("NonMaxSuppression", [boxes, -scores], _limits((3,))),
        ]
    )


def test_other_types_are_refused() -> None:
    inputs = [_boxes(1, 4).astype("float64"), _scores(1, 1, 4)]
    with pytest.raises(UnsupportedOperatorError, match="boxes and scores of type float64"):
        relay.frontend.from_onnx(node_model("NonMaxSuppression", inputs))
