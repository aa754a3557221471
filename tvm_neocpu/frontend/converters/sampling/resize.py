"""Resize and Upsample: any rank, any axes, every mode.

Relax's own ``resize2d`` is emitted where its answer is ONNX's, because blocked layouts flow through
it. But it knows sizes only and no ``scales``, and it rounds to nearest pixels in its own way. All
else becomes weighted gathers, one axis after the other, by tables made at compile time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.linear_of_integers import (
    is_linear_of_integers,
    linear_of_integers,
)
from tvm_neocpu.frontend.converters.compute.weighted_gather import weighted_gather
from tvm_neocpu.frontend.converters.geometry.interpolation import (
    COORDINATES,
    CROP,
    MODES,
    ROUNDINGS,
    Method,
    ResizedAxis,
    Taps,
)
from tvm_neocpu.frontend.converters.node import Array, Node

Axes = dict[int, ResizedAxis]
Region = tuple[float, float]

_WHOLE: Region = (0.0, 1.0)
_FLOATS = ("float16", "float32", "float64")
# Well inside int64, and its lowest bits are zeros.
_WIDE = 2.0**62
# The tables of an axis have this many rows at most.
MAX_EXTENT = 2**22
# The modes of coordinates that resize2d has, and our legalisation of it too.
_RESIZE2D_MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def resize(node: Node) -> relax.Expr:
    """Resize of every opset; ``roi``, ``scales`` and ``sizes`` are constants here."""
    method = method_of(node)
    if node.opset < 11:
        return _resized(node, method, _by_scales(node, _scales(node, 1)), 0.0)
    return _resized(node, method, _axes(node, method), node.attributes["extrapolation_value"])


def method_of(node: Node) -> Method:
    """How a Resize or an Upsample makes values between elements."""
    attributes = node.attributes
    if node.op_type == "Upsample" or node.opset < 11:
        return Method(attributes["mode"])
    return Method(
        attributes["mode"],
        attributes["coordinate_transformation_mode"],
        attributes["nearest_mode"],
        bool(attributes.get("antialias", 0)),
        bool(attributes["exclude_outside"]),
        attributes["cubic_coeff_a"],
    )


def upsample(node: Node) -> relax.Expr:
    """Upsample of opsets 7 to 9: Resize of opset 10 under its former name."""
    if node.opset < 7:
        raise UnsupportedOperatorError("Upsample below opset 7 is not supported")
    given = node.attributes.get("scales")
    scales = _scales(node, 1) if given is None else np.array(given, "float32")
    return _resized(node, method_of(node), _by_scales(node, scales), 0.0)


def _scales(node: Node, place: int) -> Array:
    scales = node.constant(place)
    if scales is None:
        raise UnsupportedOperatorError("it has no scales")
    return scales


def _by_scales(node: Node, scales: Array) -> Axes:
    return _scaled(node, range(node.rank), scales, [_WHOLE] * node.rank)


def _axes(node: Node, method: Method) -> Axes:
    """The listed axes by ``scales`` or ``sizes``, whichever the node has."""
    listed = [int(axis) % node.rank for axis in node.attributes.get("axes", range(node.rank))]
    if len(set(listed)) != len(listed):
        raise UnsupportedOperatorError("axes names an axis twice")
    regions = _regions(node, len(listed)) if method.coordinates == CROP else [_WHOLE] * len(listed)
    scales, sizes = node.constant(2), node.constant(3)
    if (scales is None) == (sizes is None):
        raise UnsupportedOperatorError("it needs either scales or sizes")
    if scales is not None:
        return _scaled(node, listed, scales, regions)
    assert sizes is not None
    return _sized(node, listed, sizes, regions)


def _regions(node: Node, count: int) -> list[Region]:
    roi = node.constant(1)
    if roi is None or len(roi) != 2 * count:
        raise UnsupportedOperatorError(f"{CROP} needs a roi of {2 * count} values")
    return [(float(start), float(end)) for start, end in zip(roi[:count], roi[count:], strict=True)]


def _scaled(node: Node, listed: Sequence[int], scales: Array, regions: Sequence[Region]) -> Axes:
    """Axes that become ``floor(length * scale)`` long, in float32 as ONNX Runtime computes it.

    ONNX's text multiplies by the region's length too; neither ONNX Runtime, ONNX's reference nor
    its shape inference does.
    """
    _check_count("scales", scales, listed)
    axes = {}
    for axis, scale, region in zip(listed, np.float32(scales), regions, strict=True):
        if not 0 < scale < np.inf:
            raise UnsupportedOperatorError(f"a scale of {scale:g} is not a positive number")
        if (scale, region) != (1, _WHOLE):
            length = node.extent(axis)
            resized = int(scale * np.float32(length))
            axes[axis] = ResizedAxis(length, resized, float(scale), region)
    return axes


def _sized(node: Node, listed: Sequence[int], sizes: Array, regions: Sequence[Region]) -> Axes:
    """Axes that become ``sizes`` long, or keep their ratio where the node's policy says so."""
    _check_count("sizes", sizes, listed)
    lengths = [node.extent(axis) for axis in listed]
    targets = [int(size) for size in sizes]
    scales = [target / length for target, length in zip(targets, lengths, strict=True)]
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = {"not_larger": min, "not_smaller": max}[policy](scales)
        scales = [scale] * len(listed)
        targets = [int(np.floor(scale * length + 0.5)) for length in lengths]
    return {
        axis: ResizedAxis(length, target, scale, region)
        for axis, length, target, scale, region in zip(
            listed, lengths, targets, scales, regions, strict=True
        )
        if (scale, region) != (1, _WHOLE)
    }


def _check_count(name: str, values: Array, listed: Sequence[int]) -> None:
    if values.shape != (len(listed),):
        raise UnsupportedOperatorError(f"{name} has {values.size} values for {len(listed)} axes")


def _resized(node: Node, method: Method, axes: Axes, extrapolation: float) -> relax.Expr:
    _check(node, method, axes)
    if not axes:
        return node.data
    outside = {number: method.extrapolated(axis) for number, axis in axes.items()}
    outside = {number: mask for number, mask in outside.items() if mask.any()}
    if is_linear_of_integers(node, method):
        value = linear_of_integers(node, method, axes)
        for number, mask in outside.items():
            value = _extrapolated(node, value, number, mask, extrapolation)
        return value
    taps = {number: method.taps(axis) for number, axis in axes.items()}
    if not outside:
        whole = _resize2d(node, method, axes, taps)
        if whole is not None:
            return whole
    value = node.data
    # The axes that shrink most come first, so that the others have less to do.
    for number in sorted(axes, key=lambda number: axes[number].resized / axes[number].length):
        value = weighted_gather(node, value, number, taps[number])
        if number in outside:
            value = _extrapolated(node, value, number, outside[number], extrapolation)
    return value


def _extrapolated(
    node: Node, value: relax.Expr, number: int, mask: Array, extrapolation: float
) -> relax.Expr:
    along = relax.const(_along(mask, number, node.rank))
    fill = np.array(extrapolation)
    if node.dtype not in _FLOATS:  # ONNX Runtime keeps the lowest bits: 300 is 44 in uint8
        fill = np.clip(np.nan_to_num(fill), -_WIDE, _WIDE).astype("int64")
    return node.emit(relax.op.where(along, relax.const(fill.astype(node.dtype)), value))


def _check(node: Node, method: Method, axes: Axes) -> None:
    check_method(method)
    if not is_linear_of_integers(node, method):
        check_type(node, method)
    for number, axis in axes.items():
        if not 1 <= axis.resized <= MAX_EXTENT:
            raise UnsupportedOperatorError(
                f"axis {number} would have {axis.resized} elements; 1 to {MAX_EXTENT} are supported"
            )


def check_method(method: Method) -> None:
    """Raise UnsupportedOperatorError for a method that no Resize has."""
    for name, value, known in (
        ("mode", method.mode, MODES),
        ("coordinate_transformation_mode", method.coordinates, COORDINATES),
        ("nearest_mode", method.rounding, ROUNDINGS),
    ):
        if value not in known:
            raise UnsupportedOperatorError(f"{name} {value!r} is not supported")
    if method.antialias and method.mode == "nearest":
        raise UnsupportedOperatorError("antialias needs mode linear or cubic")


def check_type(node: Node, method: Method) -> None:
    """Raise UnsupportedOperatorError for blends of integers."""
    if method.mode != "nearest" and node.dtype not in _FLOATS:
        raise UnsupportedOperatorError(
            f"mode {method.mode} of {node.dtype}: ONNX does not say how it rounds; cast to float "
            "before"
        )


def _resize2d(
    node: Node, method: Method, axes: Axes, taps: Mapping[int, Taps]
) -> relax.Expr | None:
    """The node as Relax's resize2d, if H and W alone change and all values are ONNX's."""
    if node.rank != 4 or node.dtype != "float32" or not set(axes) <= {2, 3}:
        return None
    if method.mode == "nearest":
        return _resize2d_nearest(node, axes, taps)
    if method.mode == "linear" and not method.antialias:
        return _resize2d_linear(node, method, axes)
    return None


def _resize2d_nearest(node: Node, axes: Axes, taps: Mapping[int, Taps]) -> relax.Expr | None:
    """By whole factors, up or down, the pixel ``floor(place * length / resized)``."""
    for number, axis in axes.items():
        longer, shorter = max(axis.length, axis.resized), min(axis.length, axis.resized)
        floored = np.arange(axis.resized) * axis.length // axis.resized
        if longer % shorter or not np.array_equal(taps[number].index[:, 0], floored):
            return None
    return relax.op.image.resize2d(
        node.data,
        _size(node, axes),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def _resize2d_linear(node: Node, method: Method, axes: Axes) -> relax.Expr | None:
    """With the first mode that means the same coordinates when scales are ratios of sizes."""
    own = (method.coordinates,) if method.coordinates in _RESIZE2D_MODES else ()
    for mode in (*own, *_RESIZE2D_MODES):
        other = replace(method, coordinates=mode)
        if all(
            np.allclose(method.source(axis), other.source(_stretched(axis)), rtol=0, atol=1e-6)
            for axis in axes.values()
        ):
            return relax.op.image.resize2d(
                node.data,
                _size(node, axes),
                method="linear",
                coordinate_transformation_mode=mode,
            )
    return None


def _stretched(axis: ResizedAxis) -> ResizedAxis:
    return ResizedAxis(axis.length, axis.resized, axis.resized / axis.length)


def _size(node: Node, axes: Axes) -> tuple[int, int]:
    height, width = (
        axes[number].resized if number in axes else node.extent(number) for number in (2, 3)
    )
    return height, width


def _along(vector: Array, number: int, rank: int) -> Array:
    """A vector shaped so that it broadcasts along one axis of a tensor."""
    return vector.reshape([-1 if axis == number else 1 for axis in range(rank)])
