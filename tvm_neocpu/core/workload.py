"""What one operator computes: shapes and attributes, without how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]

# Channels of a first convolution: an image's, with a mask or a depth.
MOST_PLAIN = 4


@dataclass(frozen=True, order=True)
class ConvWorkload:
    """A 2-D convolution over logical NCHW shapes; ``padding`` is (top, left, bottom, right)."""

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    dtype: str = "float32"

    @property
    def out_height(self) -> int:
        top, _, bottom, _ = self.padding
        reach = self.dilation[0] * (self.kernel[0] - 1) + 1
        return (self.height + top + bottom - reach) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        _, left, _, right = self.padding
        reach = self.dilation[1] * (self.kernel[1] - 1) + 1
        return (self.width + left + right - reach) // self.stride[1] + 1

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.in_channels

    @property
    def reads_plain(self) -> bool:
        """A first convolution: channels too few to be blocked, read as plain NCHW."""
        return self.groups == 1 and self.in_channels <= MOST_PLAIN

    @property
    def is_pointwise(self) -> bool:
        """A 1x1 kernel without padding or stride: a plain matrix product over pixels."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not any(self.padding)

    @property
    def flops(self) -> int:
        """Floating-point operations, a multiply-add counted as two."""
        pixels = self.batch * self.out_height * self.out_width
        taps = self.kernel[0] * self.kernel[1] * (self.in_channels // self.groups)
        return 2 * pixels * self.out_channels * taps

    @property
    def in_shape(self) -> tuple[int, int, int, int]:
        return (self.batch, self.in_channels, self.height, self.width)

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        return (self.batch, self.out_channels, self.out_height, self.out_width)

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.out_channels, self.in_channels // self.groups, *self.kernel)

    def args(self) -> list[Any]:
        """The argument list of an AutoTVM ``conv2d_NCHWc`` or ``depthwise_conv2d_NCHWc`` task.

        Grouped convolution, which had no NCHWc task in AutoTVM, appends its group count.
        """
        data = ["TENSOR", list(self.in_shape), self.dtype]
        weight = ["TENSOR", list(self.autotvm_weight_shape), self.dtype]
        window = [list(self.stride), list(self.padding), list(self.dilation)]
        grouped = self.groups > 1 and not self.is_depthwise
        return [data, weight, *window, "NCHW", "NCHW", self.dtype, *([self.groups] * grouped)]

    @property
    def autotvm_weight_shape(self) -> tuple[int, int, int, int]:
        """AutoTVM stored depthwise weights as (C, multiplier, KH, KW)."""
        if not self.is_depthwise:
            return self.weight_shape
        return (self.in_channels, self.out_channels // self.in_channels, *self.kernel)

    def __str__(self) -> str:
        kernel = f"{self.kernel[0]}x{self.kernel[1]}"
        parts = [f"{self.in_channels}x{self.height}x{self.width}->{self.out_channels}", kernel]
        if self.batch != 1:
            parts.insert(0, f"batch{self.batch}")
        if self.stride != (1, 1):
            parts.append("s" + _short(self.stride))
        if any(self.padding):
            parts.append("p" + _short(self.padding))
        if self.dilation != (1, 1):
            parts.append("d" + _short(self.dilation))
        if self.groups != 1:
            parts.append("depthwise" if self.is_depthwise else f"g{self.groups}")
        return " ".join(parts)


def _short(values: tuple[int, ...]) -> str:
    """``(1, 1)`` as "1", ``(2, 1)`` in full."""
    return str(values[0]) if len(set(values)) == 1 else str(values)


@dataclass(frozen=True, order=True)
class DenseWorkload:
    """``Y[batch, out] = X[batch, in] @ W[out, in].T``."""

    batch: int
    in_features: int
    out_features: int
    dtype: str = "float32"

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.in_features * self.out_features

    def args(self) -> list[Any]:
        """The argument list of an AutoTVM ``dense_pack`` task."""
        data = ["TENSOR", [self.batch, self.in_features], self.dtype]
        weight = ["TENSOR", [self.out_features, self.in_features], self.dtype]
        return [data, weight, None, self.dtype]

    def __str__(self) -> str:
        return f"dense {self.batch}x{self.in_features}->{self.out_features}"


@dataclass(frozen=True, order=True)
class TransformWorkload:
    """A logical (N, C, H, W) tensor stored anew: from blocks of ``before`` to ``after`` channels.

    A block of 0 is plain NCHW.
    """

    batch: int
    channels: int
    height: int
    width: int
    before: int
    after: int
    dtype: str = "float32"

    @property
    def flops(self) -> int:
        """None: it moves bytes."""
        return 0

    @property
    def in_shape(self) -> tuple[int, int, int, int]:
        return (self.batch, self.channels, self.height, self.width)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written in all."""
        return 2 * 4 * self.batch * self.channels * self.height * self.width

    @property
    def is_free(self) -> bool:
        """Whether both layouts store the tensor in the same order."""
        same = max(self.before, 1) == max(self.after, 1)
        return same or self.height * self.width == 1

    def args(self) -> list[Any]:
        """The argument list of AutoTVM's graph-tuner ``layout_transform`` tasks, by layout name."""
        names = [f"NCHW{block}c" if block else "NCHW" for block in (self.before, self.after)]
        return [["TENSOR", list(self.in_shape), self.dtype], *names]

    def __str__(self) -> str:
        _, before, after = self.args()
        return f"{self.channels}x{self.height}x{self.width} {before}->{after}"


Workload = ConvWorkload | DenseWorkload | TransformWorkload

WORKLOAD_TYPES: dict[str, type[ConvWorkload | DenseWorkload | TransformWorkload]] = {
    kind.__name__: kind for kind in (ConvWorkload, DenseWorkload, TransformWorkload)
}
