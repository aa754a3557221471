"""Resize along one axis: which input elements an output element blends, and how much of each.

Resizing several axes is separable, so that everything here is about one axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]

# ONNX Runtime computes coordinates in float32, and the nearest element depends on the last bit:
# asymmetric from 14 elements to 2, rounded to the floor, is element 6 in float32 and 7 in float64.
_RUNTIME = np.float32
# ONNX Runtime takes a coordinate this close to the middle for the middle: asymmetric from 7
# elements to 8 has one at 3.4999998.
TIE = 1e-6
CROP = "tf_crop_and_resize"
_WHOLE = (0.0, 1.0)


@dataclass(frozen=True)
class ResizedAxis:
    """An axis of ``length`` elements that becomes ``resized`` long.

    ``scale`` is what coordinates are divided by: ONNX's ``scales``, which is not
    ``resized / length`` where ``length * scale`` is not whole. ``roi`` is normalised to the axis.
    """

    length: int
    resized: int
    scale: float
    roi: tuple[float, float] = _WHOLE


@dataclass(frozen=True, eq=False)
class Taps:
    """Output element ``i`` is the sum over ``t`` of ``weight[i, t] * data[index[i, t]]``.

    ``index`` and ``weight`` have the shape ``(resized, taps)``; indices lie inside the axis.
    """

    index: Ints
    weight: Floats

    @property
    def selects(self) -> bool:
        """Whether every output element is one input element."""
        return self.index.shape[1] == 1 and bool((self.weight == 1).all())


@dataclass(frozen=True)
class Method:
    """How values between the elements of an axis are made; the fields are ONNX's attributes.

    The defaults are those of Upsample, and of Resize below opset 11.
    """

    mode: str
    coordinates: str = "asymmetric"
    rounding: str = "simple"
    antialias: bool = False
    exclude_outside: bool = False
    cubic_a: float = -0.75

    def taps(self, axis: ResizedAxis) -> Taps:
        """What the axis blends: 1 tap for nearest, 2 for linear, 4 for cubic; antialiasing widens.

        Elements outside the axis repeat the border's. ``exclude_outside`` gives them no weight, and
        scales the other weights to the sum 1.
        """
        if self.mode == "nearest":
            return self._nearest(axis)
        if self.mode == "linear":
            return self._filtered(axis, _triangle, 1)
        return self._filtered(axis, lambda x: _cubic(x, self.cubic_a), 2)

    def integer_taps(self, axis: ResizedAxis) -> Taps:
        """Linear's two taps as ONNX Runtime weighs integers, whose fractions it cuts off.

        Coordinates and weights are float32. On the last element and beyond it both taps are that
        element and weigh a half.
        """
        last = axis.length - 1
        stays = axis.scale == 1 and axis.roi == _WHOLE
        at = np.arange(axis.resized, dtype=_RUNTIME) if stays else self._at_run_time(axis)
        at = np.clip(at, _RUNTIME(0), _RUNTIME(last))
        first = at.astype(np.int64)
        index = np.stack([first, np.minimum(first + 1, last)], axis=1)
        share = at - first.astype(_RUNTIME)
        weight = np.stack([1 - share, share], axis=1)
        return Taps(index, np.where(first[:, None] == last, _RUNTIME(0.5), weight))

    def source(self, axis: ResizedAxis) -> Floats:
        """``(resized,)``: where each output element lies on the input axis."""
        return _coordinates(axis, self.coordinates, np.float64)

    def extrapolated(self, axis: ResizedAxis) -> npt.NDArray[np.bool_]:
        """``(resized,)``: which output elements a crop takes from outside the axis."""
        if self.coordinates != CROP:
            return np.zeros(axis.resized, bool)
        at = self._at_run_time(axis)
        return (at < 0) | (at > axis.length - 1)

    def _at_run_time(self, axis: ResizedAxis) -> Floats:
        return _coordinates(axis, self.coordinates, _RUNTIME)

    def _nearest(self, axis: ResizedAxis) -> Taps:
        rounding = self.rounding
        if rounding == _SIMPLE:
            rounding = "ceil" if axis.scale < 1 else "floor"
        at = self._at_run_time(axis).astype(np.float64)
        index = np.clip(_ROUNDINGS[rounding](at), 0, axis.length - 1)[:, None].astype(np.int64)
        return Taps(index, np.ones(index.shape))

    def _filtered(
        self, axis: ResizedAxis, kernel: Callable[[Floats], Floats], support: int
    ) -> Taps:
        """Weights by ``kernel``, which is zero from ``support`` on."""
        shrink = min(1.0, axis.scale) if self.antialias else 1.0
        at = self.source(axis)[:, None]
        reach = int(np.ceil(support / shrink))
        index = np.floor(at).astype(np.int64) + np.arange(1 - reach, 1 + reach)
        weight = kernel((index - at) * shrink)
        if self.exclude_outside:
            weight = np.where((index < 0) | (index >= axis.length), 0, weight)
        if self.antialias or self.exclude_outside:
            total = weight.sum(axis=1, keepdims=True)
            weight = weight / np.where(total == 0, 1, total)
        used = np.flatnonzero(np.any(weight, axis=0))
        if not len(used):  # a crop from outside the axis: the values are replaced
            used = np.array([0])
        return Taps(np.clip(index, 0, axis.length - 1)[:, used], weight[:, used])


def _triangle(x: Floats) -> Floats:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Floats, a: float) -> Floats:
    """Keys 1981, "Cubic convolution interpolation for digital image processing", equation 4."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _coordinates(axis: ResizedAxis, mode: str, dtype: type[np.floating[Any]]) -> Floats:
    """``(resized,)``: where each output element lies on the input axis, computed in ``dtype``."""
    place = np.arange(axis.resized, dtype=dtype)
    return _COORDINATES[mode](axis, place, dtype).astype(dtype)


# Each of these repeats ONNX Runtime's operations in their order: float32 rounds differently else.
def _asymmetric(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    return place / dtype(axis.scale)


def _half_pixel(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    return (place + dtype(0.5)) / dtype(axis.scale) - dtype(0.5)


def _half_pixel_symmetric(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    """The middles of both axes coincide, whatever was cut off ``length * scale``."""
    exact = dtype(axis.scale) * dtype(axis.length)
    offset = dtype(axis.length) / dtype(2) * (dtype(1) - dtype(axis.resized) / exact)
    return np.float64(offset) + (place.astype(np.float64) + 0.5) / float(dtype(axis.scale)) - 0.5


def _pytorch_half_pixel(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    return _half_pixel(axis, place, dtype) if axis.resized > 1 else place


def _tf_half_pixel_for_nn(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    """Opset 11 alone has it."""
    return (place + dtype(0.5)) / dtype(axis.scale)


def _align_corners(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    if axis.resized == 1:
        return place
    return place * dtype(axis.length - 1) / dtype(axis.resized - 1)


def _tf_crop_and_resize(axis: ResizedAxis, place: Floats, dtype: Any) -> Floats:
    start, end = dtype(axis.roi[0]), dtype(axis.roi[1])
    last = dtype(axis.length - 1)
    if axis.resized == 1:
        return place + dtype(0.5) * (start + end) * last
    return start * last + place * (end - start) * last / dtype(axis.resized - 1)


def _is_tie(at: Floats) -> npt.NDArray[np.bool_]:
    return np.abs(at - np.floor(at) - 0.5) <= TIE


_COORDINATES: dict[str, Callable[[ResizedAxis, Floats, Any], Floats]] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    CROP: _tf_crop_and_resize,
}

# ``simple``, the rounding below opset 11, is floor for scales from 1 on and ceil for smaller ones.
_SIMPLE = "simple"
_ROUNDINGS: dict[str, Callable[[Floats], Floats]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda at: np.where(_is_tie(at), np.ceil(at), np.round(at)),
    "round_prefer_floor": lambda at: np.where(_is_tie(at), np.floor(at), np.round(at)),
}

MODES = ("nearest", "linear", "cubic")
COORDINATES = tuple(_COORDINATES)
ROUNDINGS = (*_ROUNDINGS, _SIMPLE)
