"""Convolutions that pad their data by a zero point themselves.

p = nn.pad(x, pad_value=128)
y = conv2d(p)                      ->    y = padded_conv2d(x, pad_value=128)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.types import INTEGER_PRODUCTS
from tvm_neocpu.relay_passes.ir.exprs import call_of, static_shape
from tvm_neocpu.relay_passes.ir.padding import image_padding
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.operators.conv2d import OP, conv_workload
from tvm_neocpu.relay_passes.operators.new.padded_conv2d import padded_conv2d


@dataclass(frozen=True)
class AbsorbZeroPoints:
    """A padding of the image in front of an integer convolution becomes part of it.

    Its template reads a padded copy of a few rows, or tests for the border, where an operation of
    its own would write the whole image again.

    Needs: passes that know ``conv2d`` only are through; feature maps are plain NCHW.
    Leaves: paddings that something else reads too, or that a convolution has beside its own.
    """

    name: ClassVar[str] = "absorb-zero-points"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    conv = conv_workload(value) if call_of(value, OP) is not None else None
    if conv is None or conv.types not in INTEGER_PRODUCTS or any(conv.padding):
        return None
    pad = scope.definition(value.args[0])
    padding = image_padding(pad)
    if padding is None:
        return None
    image, zero = static_shape(pad.args[0]), float(pad.attrs.pad_value)
    if image is None or zero not in range(256):
        return None
    _, _, height, width = image
    padded = replace(conv, height=height, width=width, padding=padding, pad_value=int(zero))
    return padded_conv2d(pad.args[0], value.args[1], padded)
