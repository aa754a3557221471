"""What a config of the bf16 template means for a convolution: the integer one's words, of pairs.

A word is 32 bits: two neighbouring channels. One instruction multiplies a word of data, broadcast,
with a word of weights for each lane, and adds both products (``VDPBF16PS`` of core/machine/dot.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import DotProduct
from tvm_neocpu.core.types import BF16_MAPS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct import geometry as direct
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerGeometry
from tvm_neocpu.topi.math.bf16_products import ELEMENTS
from tvm_neocpu.topi.math.half_precision import BITS


@dataclass(frozen=True, order=True)
class Bf16Config(ConvConfig):
    """The direct template's schedule tuple; a step multiplies one word of two elements."""

    template: ClassVar[str] = "conv2d_NCHWc_bf16"

    dot: ClassVar[int] = ELEMENTS
    words: ClassVar[int] = 1
    signed: ClassVar[bool] = False


@dataclass(frozen=True)
class Bf16Geometry(IntegerGeometry):
    """The extents that template, space and cost share."""

    config: Bf16Config  # type: ignore[assignment]

    @property
    def data_type(self) -> str:
        """The type of the elements of a word of data: their bits."""
        return BITS

    @property
    def converts(self) -> bool:
        """Whether the image is fp32: data may be rounded where they are made."""
        return not self.reads_bf16

    @property
    def reads_bf16(self) -> bool:
        return self.conv.types == BF16_MAPS

    def dot(self, cpu: Cpu) -> DotProduct | None:
        return cpu.bf16


def misfit(conv: ConvWorkload, config: Bf16Config) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    return direct.misfit_in_groups(conv, config)
