"""The axis of depth of a volume that is a batch of images: which images a kernel reads for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.ir import Expr

WINDOWS, ROWS = "depth_windows", "depth_rows"
# Says of a computation that it only finds the place of what lies in memory.
PLACES_KEY = "neocpu.places"
# In place of an image that is not there.
OUTSIDE = -1


@dataclass(frozen=True)
class Depth:
    """The axis of depth: ``taps`` of a kernel over ``extent`` images give ``outputs``.

    ``batch`` volumes lie one behind the other. ``before`` images of zeros stand in front of each;
    if it is negative, so many of its images are skipped.
    """

    batch: int
    extent: int
    outputs: int
    taps: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def is_each_image(self) -> bool:
        """Whether each output reads the image in its place, and nothing else."""
        return self.taps == 1 and self.window(0) == (0, self.extent, 0, 0) and self.stride == 1

    @property
    def after(self) -> int:
        """Images of zeros that the last outputs read behind the volume."""
        return max(0, self.place(self.outputs - 1, self.taps - 1) - self.extent + 1)

    @property
    def reads_zeros(self) -> bool:
        """Whether a tap reads an image of zeros."""
        return bool((self.images() == OUTSIDE).any())

    def place(self, output: Any, tap: Any) -> Any:
        """The image of its volume that an output reads; outside of the extent: one of zeros.

        Of numbers, arrays or indices of a loop.
        """
        return output * self.stride + tap * self.dilation - self.before

    def window(self, tap: int) -> tuple[int, int, int, int]:
        """(first image, last image + 1, outputs before it, outputs after it) that a tap reads."""
        places = [self.place(output, tap) for output in range(self.outputs)]
        inside = [place for place in places if 0 <= place < self.extent]
        if not inside:
            return 0, 0, self.outputs, 0
        lower = sum(place < 0 for place in places)
        return inside[0], inside[-1] + 1, lower, len(places) - lower - len(inside)

    def images(self) -> np.ndarray:
        """The image that each output and tap read, of shape (batch * outputs, taps)."""
        outputs, taps = np.indices((self.outputs, self.taps))
        places = self.place(outputs, taps)
        volumes = np.arange(self.batch)[:, None, None] * self.extent
        inside = (places >= 0) & (places < self.extent)
        return np.where(inside, volumes + places, OUTSIDE).reshape(-1, self.taps)

    @classmethod
    def of_images(cls, images: np.ndarray, count: int) -> Depth | None:
        """The depth whose :meth:`images` over ``count`` images are these; ``None`` for others.

        Finds none if every image is outside, or if a step goes back or is longer than a volume.
        """
        outputs, taps = images.shape
        for batch in (b for b in range(1, gcd(outputs, count) + 1) if gcd(outputs, count) % b == 0):
            first, extent = images[: outputs // batch], count // batch
            if (first == OUTSIDE).all():
                continue
            output, tap = np.argwhere(first != OUTSIDE)[0]
            for stride, dilation in product(*(_steps(first, axis, extent) for axis in (0, 1))):
                before = int(output * stride + tap * dilation - first[output, tap])
                found = cls(batch, extent, len(first), taps, stride, dilation, before)
                if np.array_equal(found.images(), images):
                    return found
        return None


def _steps(images: np.ndarray, axis: int, extent: int) -> Iterable[int]:
    """The step along an axis; every candidate where no two neighbours are inside, none if it goes
    back.
    """
    if images.shape[axis] == 1:
        return [1]
    one, other = (np.delete(images, at, axis) for at in (-1, 0))
    both = (one != OUTSIDE) & (other != OUTSIDE)
    if not both.any():
        return range(1, extent + 1)
    step = int((other - one)[both][0])
    return [step] if step > 0 else []


def finds_images(data: te.Tensor) -> bool:
    """Whether a tensor is what :func:`depth_windows` makes: a place in memory, or zero."""
    return isinstance(data.op, te.ComputeOp) and data.op.name == WINDOWS


def depth_windows(data: te.Tensor, depth: Depth) -> te.Tensor:
    """(N * D, B, ...) -> (N * outputs, taps * B, ...): the images of an output side by side.

    Their channels, or blocks of these, lie one behind the other; zeros where no image is.
    """
    blocks = int(data.shape[1])

    def element(n, c, *at):
        return _pixel(data, depth, n, c // blocks, (c % blocks, *at))

    shape = (depth.batch * depth.outputs, depth.taps * blocks, *data.shape[2:])
    attrs = {} if depth.reads_zeros else {PLACES_KEY: 1}
    return te.compute(shape, element, name=WINDOWS, attrs=attrs)


def depth_rows(data: te.Tensor, depth: Depth) -> te.Tensor:
    """(N * D, B, H, ...) -> (N * outputs, B, H * taps, ...): row y of each image that an output
    reads, then row y + 1; zeros where no image is.
    """

    def element(n, c, y, *at):
        return _pixel(data, depth, n, y % depth.taps, (c, y // depth.taps, *at))

    _, blocks, rows, *rest = data.shape
    shape = (depth.batch * depth.outputs, blocks, rows * depth.taps, *rest)
    attrs = {} if depth.reads_zeros else {PLACES_KEY: 1}
    return te.compute(shape, element, name=ROWS, attrs=attrs)


def _pixel(data: te.Tensor, depth: Depth, n: Expr, tap: Expr, at: tuple[Expr, ...]) -> Expr:
    """A place of the image that output ``n`` of the batch reads at a tap, or zero."""
    volume, output = (0, n) if depth.batch == 1 else (n // depth.outputs, n % depth.outputs)
    place = depth.place(output, tap)
    value = data(volume * depth.extent + place, *at)
    if not depth.reads_zeros:
        return value
    inside = tirx.all(place >= 0, place < depth.extent)
    return tirx.if_then_else(inside, value, tirx.const(0, data.dtype))
