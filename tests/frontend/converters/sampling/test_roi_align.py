"""RoiAlign against ONNX Runtime: modes, transforms, grids, regions outside and of no size."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Case, check_together, image

ROIS = np.array(
    [
        [0, 0, 9, 9],
        [1.3, 2.7, 6.1, 5.2],
        [-2, -3, 4, 4],
        [5, 5, 20, 30],
        [4, 4, 4, 4],
        [7, 7, 3, 3],
    ],
    "float32",
)
IMAGES = np.array([0, 1, 1, 0, 0, 1], "int64")


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_transforms_grids_and_scales(mode: str) -> None:
    named = {"mode": mode, "output_height": 3, "output_width": 2}
    check_together(
        [
            Case(
                "RoiAlign",
                [image(2, 3, 10, 10), ROIS, IMAGES],
                (),
                named
                | {
                    "sampling_ratio": ratio,
                    "spatial_scale": scale,
                    "coordinate_transformation_mode": transform,
                },
            )
            for ratio, scale in ((0, 1.0), (2, 0.5))
            for transform in ("half_pixel", "output_half_pixel")
        ]
    )


def test_defaults_of_both_opsets_and_constant_images() -> None:
    check_together([Case("RoiAlign", [image(2, 3, 10, 10), ROIS], [IMAGES])], opset=10)
    double = [image(2, 3, 10, 10, dtype="float64"), ROIS.astype("float64"), IMAGES]
    check_together([Case("RoiAlign", double)], opset=16)
