"""RoiAlign: both coordinate transforms, mean and max."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.region_pooling import Regions, align_regions
from tvm_neocpu.frontend.converters.inside import inside_axis
from tvm_neocpu.frontend.converters.node import Node

_MODES = ("avg", "max")
_HALF_PIXEL = ("half_pixel", "output_half_pixel")
_FLOATS = ("float32", "float64")


def roi_align(node: Node) -> relax.Expr:
    """Data ``(N, C, H, W)``, regions ``(R, 4)`` and their images ``(R,)`` -> ``(R, C, h, w)``.

    Before opset 16 there is no ``coordinate_transformation_mode``: regions keep their place.
    A region of an image that is not in the batch is read from the nearest.
    ``max`` takes the largest weighted pixel of all samples, as ONNX's and ONNX Runtime's loops do.
    """
    mode = node.attributes["mode"]
    transform = node.attributes.get("coordinate_transformation_mode", "output_half_pixel")
    if mode not in _MODES or transform not in _HALF_PIXEL:
        raise UnsupportedOperatorError(f"mode {mode} with {transform}")
    if node.dtype not in _FLOATS:
        raise UnsupportedOperatorError(f"data of type {node.dtype}")
    rois = node.required(1)
    if rois.ty.shape is None:
        raise UnsupportedOperatorError("the number of its regions is not known at import")
    regions = Regions(
        node.attributes["output_height"],
        node.attributes["output_width"],
        node.attributes["sampling_ratio"],
        node.attributes["spatial_scale"],
        transform == "half_pixel",
        mode == "max",
    )
    counts = (rois.ty.shape.values[0], node.extent(1), node.extent(2), node.extent(3))
    images = inside_axis(node, 2, 0)
    return align_regions(node, (node.data, rois, images), counts, regions)
