"""The window that a convolution or pooling slides over an image."""

from __future__ import annotations

import math
from dataclasses import dataclass

Size = int | tuple[int, int]  # height and width, or one number for both
# One number for all sides, (height, width) for both ends, or (top, left, bottom, right).
Padding = Size | tuple[int, int, int, int]


@dataclass(frozen=True)
class Window:
    """Kernel, stride and dilation as (height, width), padding as (top, left, bottom, right).

    ``ceil`` rounds a size that does not divide up instead of down, as PyTorch's ``ceil_mode`` does.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int] = (1, 1)
    ceil: bool = False

    @classmethod
    def of(
        cls,
        kernel: Size,
        stride: Size = 1,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil: bool = False,
    ) -> Window:
        return cls(_pair(kernel), _pair(stride), _sides(padding), _pair(dilation), ceil)

    @property
    def area(self) -> int:
        return math.prod(self.kernel)

    def slide_over(self, image: tuple[int, ...]) -> tuple[int, ...]:
        """Height and width of the result. Raises ValueError if either is below 1."""
        top, left, bottom, right = self.padding
        padded = image[0] + top + bottom, image[1] + left + right
        free = [
            size - gap * (taps - 1) - 1
            for size, taps, gap in zip(padded, self.kernel, self.dilation, strict=True)
        ]
        rounding = [step - 1 if self.ceil else 0 for step in self.stride]
        sizes = zip(free, rounding, self.stride, strict=True)
        result = tuple((size + extra) // step + 1 for size, extra, step in sizes)
        if min(free) < 0:
            raise ValueError(f"a window of {self.kernel} does not fit into an image of {image}")
        return result

    def attributes(self) -> dict[str, tuple[int, ...] | int]:
        """The window as ONNX attributes; those at their defaults are left out."""
        found: dict[str, tuple[int, ...] | int] = {
            "kernel_shape": self.kernel,
            "strides": self.stride,
            "pads": self.padding,
        }
        if self.dilation != (1, 1):
            found["dilations"] = self.dilation
        if self.ceil:
            found["ceil_mode"] = 1
        return found


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _sides(padding: Padding) -> tuple[int, int, int, int]:
    if isinstance(padding, tuple) and len(padding) == 4:
        return padding
    height, width = _pair(padding)
    return height, width, height, width
