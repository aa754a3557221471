"""The workload of a 2-D convolution, whatever algorithm computes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_neocpu.core.machine.dot import ANY_WEIGHTS
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import FP32, Types

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]
Shape4 = tuple[int, int, int, int]

# Channels of a first convolution: an image's, with a mask or a depth.
MAX_PLAIN_CHANNELS = 4


@dataclass(frozen=True, order=True)
class ConvWorkload(Workload):
    """A 2-D convolution over logical NCHW shapes; ``padding`` is (top, left, bottom, right).

    ``pad_value`` is what the padding consists of: the zero point of quantised data.
    ``weight_bits`` says how small int8 weights are, where a CPU gains from small ones
    (:mod:`tvm_neocpu.topi.conv2d_integer.small_weights`).
    """

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
    types: Types = FP32
    pad_value: int = 0
    weight_bits: int = ANY_WEIGHTS

    @cached_property
    def reach(self) -> Pair:
        """Input rows and columns that one output pixel reads from first to last."""
        (rows, columns), (down, across) = self.kernel, self.dilation
        return down * (rows - 1) + 1, across * (columns - 1) + 1

    @cached_property
    def out_height(self) -> int:
        top, _, bottom, _ = self.padding
        return (self.height + top + bottom - self.reach[0]) // self.stride[0] + 1

    @cached_property
    def out_width(self) -> int:
        _, left, _, right = self.padding
        return (self.width + left + right - self.reach[1]) // self.stride[1] + 1

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.in_channels

    @property
    def multiplier(self) -> int:
        """Output channels that a depthwise convolution makes of each input channel."""
        return self.out_channels // self.in_channels

    @property
    def reads_plain(self) -> bool:
        """Whether it is a first convolution: too few channels for blocks, read as plain NCHW."""
        return self.groups == 1 and self.in_channels <= MAX_PLAIN_CHANNELS

    @property
    def is_pointwise(self) -> bool:
        """Whether it is a matrix product over pixels: a 1x1 kernel without padding or stride."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not any(self.padding)

    @property
    def taps(self) -> int:
        """Multiply-adds of one output value: kernel elements times input channels of a group."""
        return self.kernel[0] * self.kernel[1] * (self.in_channels // self.groups)

    @property
    def flops(self) -> int:
        pixels = self.batch * self.out_height * self.out_width
        return 2 * pixels * self.out_channels * self.taps

    @property
    def in_shape(self) -> Shape4:
        return (self.batch, self.in_channels, self.height, self.width)

    @property
    def out_shape(self) -> Shape4:
        return (self.batch, self.out_channels, self.out_height, self.out_width)

    @property
    def weight_shape(self) -> Shape4:
        """OIHW; I counts the channels of one group."""
        return (self.out_channels, self.in_channels // self.groups, *self.kernel)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("data", self.in_shape, self.types.data, Role.FEATURE_MAP),
            Operand("weight", self.weight_shape, self.types.weight, Role.WEIGHT),
        )

    def args(self) -> list[Any]:
        """The argument list of an AutoTVM ``conv2d_NCHWc`` or ``depthwise_conv2d_NCHWc`` task.

        AutoTVM had no task for other grouped convolutions: theirs append the group count.
        """
        data = ["TENSOR", list(self.in_shape), self.types.data]
        weight = ["TENSOR", list(self.autotvm_weight_shape), self.types.weight]
        window = [list(self.stride), list(self.padding), list(self.dilation)]
        grouped = self.groups > 1 and not self.is_depthwise
        groups = [self.groups] * grouped
        return [data, weight, *window, "NCHW", "NCHW", self.types.output, *groups]

    def extras(self) -> dict[str, Any]:
        """The group count, which the weight's shape tells of dense and depthwise ones only.

        And what the padding consists of, unless it is zeros; how small weights are, if they are.
        """
        found = {
            "groups": (self.groups, 1),
            "pad_value": (self.pad_value, 0),
            "weight_bits": (self.weight_bits, ANY_WEIGHTS),
        }
        return {name: value for name, (value, usual) in found.items() if value != usual}

    @property
    def autotvm_weight_shape(self) -> Shape4:
        """AutoTVM stored depthwise weights as (C, multiplier, KH, KW)."""
        if not self.is_depthwise:
            return self.weight_shape
        return (self.in_channels, self.multiplier, *self.kernel)

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
        if self.pad_value:
            parts.append(f"z{self.pad_value}")
        if self.weight_bits != ANY_WEIGHTS:
            parts.append(f"w{self.weight_bits}")
        if self.types != FP32:
            parts.append(str(self.types))
        return " ".join(parts)


def _short(values: tuple[int, ...]) -> str:
    """``(1, 1)`` as "1", ``(2, 1)`` in full."""
    return str(values[0]) if len(set(values)) == 1 else str(values)
