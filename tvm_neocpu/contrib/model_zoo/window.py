"""The window that a convolution or pooling slides over an image."""

from __future__ import annotations

import math
from dataclasses import dataclass

Size = int | tuple[int, int]  # height and width, or one number for both


@dataclass(frozen=True)
class Window:
    """Kernel, stride and symmetric padding, each as (height, width)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @classmethod
    def of(cls, kernel: Size, stride: Size = 1, padding: Size = 0) -> Window:
        return cls(_pair(kernel), _pair(stride), _pair(padding))

    @property
    def area(self) -> int:
        return math.prod(self.kernel)

    def slide_over(self, image: tuple[int, ...]) -> tuple[int, ...]:
        """Height and width of the result, rounded down. Raises ValueError if either is below 1."""
        sizes = zip(image, self.kernel, self.stride, self.padding, strict=True)
        result = tuple((size + 2 * pad - span) // step + 1 for size, span, step, pad in sizes)
        if min(result) < 1:
            raise ValueError(f"a window of {self.kernel} does not fit into an image of {image}")
        return result

    def attributes(self) -> dict[str, tuple[int, ...]]:
        """The window as ONNX attributes."""
        pads = self.padding + self.padding
        return {"kernel_shape": self.kernel, "strides": self.stride, "pads": pads}


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
