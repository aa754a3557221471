"""Convolutions whose weights L2 does not hold, as sums over parts of their channels.

y = conv2d(x, W, dilation=(12, 12))         # 2048 channels, 3x3: 32 filters have 2.4 MB
->
y = conv2d(x[:, :256], W[:, :256])
y = conv2d(x[:, 256:512], W[:, 256:512]) + y
...

A register tile sums over all channels and taps, so each tile reads a block of filters once. If L2
does not hold that block, it comes from L3 for every tile, and more slowly than it is multiplied.
The sums of a part are written and read again; they are small beside the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import FP32
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS, Range, slice_of
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.cost.roofline import L2_SHARE

# Vectors of filters that a register tile multiplies as a rule.
VECTORS = 2
# The share of L2 that the weights of a part's block take; the pixels that a tile reads are beside.
PART_SHARE = 0.25
# With fewer pixels too few tiles read the weights again.
LEAST_PIXELS = 256


@dataclass(frozen=True)
class SplitReductions:
    """A conv2d becomes a sum of several over parts of its channels where L2 holds no whole block.

    Needs: linear operations are folded, dilated convolutions that Winograd takes are dense.
    Leaves: convolutions with groups, of integers, of few pixels, and those that the direct template
    does not compute; Winograd's matrix products have blocks of their own.
    """

    name: ClassVar[str] = "split-reductions"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        def rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            conv = conv_workload(value)
            parts = 1 if conv is None else parts_of(conv, self.cpu)
            return None if conv is None or parts == 1 else _sum_of_parts(scope, value, conv, parts)

        return rewrite_values(mod, rewrite)


def parts_of(conv: ConvWorkload, cpu: Cpu) -> int:
    """Into how many parts of its channels a convolution is split; 1 where it stays whole."""
    pixels = conv.batch * conv.out_height * conv.out_width
    if conv.types != FP32 or conv.groups > 1 or pixels < LEAST_PIXELS:
        return 1
    lanes = cpu.lanes(FP32.weight)
    block = VECTORS * lanes * conv.weight_bytes / conv.out_channels
    if block <= L2_SHARE * cpu.l2 or not _is_direct(conv, cpu):
        return 1
    # Parts of whole blocks of channels: every layout of the whole stays one of the parts.
    units, rest = divmod(conv.in_channels, VECTORS * lanes)
    wanted = block / (PART_SHARE * cpu.l2)
    fitting = (parts for parts in range(2, units) if units % parts == 0 and parts >= wanted)
    return next(fitting, units) if units and not rest else 1


def _is_direct(conv: ConvWorkload, cpu: Cpu) -> bool:
    ranked = best_per_layout(conv, cpu)
    return bool(ranked) and ranked[0].config.template == ConvConfig.template


def _sum_of_parts(scope: Scope, call: relax.Call, conv: ConvWorkload, parts: int) -> relax.Expr:
    data, weight = call.args[0], call.args[1].value.numpy()
    step = conv.in_channels // parts
    part = replace(conv, in_channels=step)

    def of_part(begin: int) -> relax.Expr:
        channels = scope.emit(slice_of(data, [Range(CHANNELS, begin, begin + step)]))
        filters = weight[:, begin : begin + step].copy()
        return scope.emit(convolution(channels, filters, part, groups=1))

    begins = range(0, conv.in_channels, step)
    return scope.combine(relax.op.add, [of_part(begin) for begin in begins])
