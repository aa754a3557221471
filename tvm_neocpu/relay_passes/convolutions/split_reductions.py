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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import FP32, HALF_WEIGHTS
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS, Range, slice_of
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.cost.roofline import L2_SHARE

# Vectors of filters that a register tile multiplies as a rule.
VECTORS = 2
# The share of L2 that the weights of a part's block take; the pixels that a tile reads are beside.
PART_SHARE = 0.25
# Floats whose register tiles walk a block of filters from end to end.
_TYPES = (FP32, *HALF_WEIGHTS)
_TEMPLATES = (ConvConfig.template, Bf16Config.template)
# With fewer pixels too few tiles read the weights again.
LEAST_PIXELS = 256


@dataclass(frozen=True)
class SplitReductions:
    """A conv2d becomes a sum of several over parts of its channels where L2 holds no whole block.

    Needs: linear operations are folded, dilated convolutions that Winograd takes are dense, and
    nothing that is known of a layer is looked up by its shape any more.
    Leaves: convolutions with groups, of integers, of few pixels, of channels that are no whole
    pairs of vectors, and those that no direct template computes: Winograd's and AMX's products have
    blocks of their own.
    """

    name: ClassVar[str] = "split-reductions"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        def rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            conv = conv_workload(value)
            if conv is None or len(ends := part_ends(conv, self.cpu)) < 2:
                return None
            return _sum_of_parts(scope, value, conv, ends)

        return rewrite_values(mod, rewrite)


def part_ends(conv: ConvWorkload, cpu: Cpu) -> tuple[int, ...]:
    """Where the parts of a convolution's channels end; of one that stays whole the last one's."""
    whole = (conv.in_channels,)
    pixels = conv.batch * conv.out_height * conv.out_width
    if conv.types not in _TYPES or conv.groups > 1 or pixels < LEAST_PIXELS:
        return whole
    unit = VECTORS * cpu.lanes(FP32.weight)
    filters = min(unit, conv.out_channels)
    block = filters * conv.weight_bytes / conv.out_channels
    # Parts of whole units: layouts of the whole stay layouts of the parts.
    units, rest = divmod(conv.in_channels, unit)
    if rest or block <= L2_SHARE * cpu.l2 or not _walks_panels(conv, cpu):
        return whole
    least = min(units, ceil(block / (PART_SHARE * cpu.l2)))
    # Equal parts are one kernel, if not many more are needed for that.
    equal = (parts for parts in range(least, 2 * least + 1) if units % parts == 0)
    of_part = unit * ceil(units / next(equal, least))
    return (*range(of_part, conv.in_channels, of_part), conv.in_channels)


def _walks_panels(conv: ConvWorkload, cpu: Cpu) -> bool:
    ranked = best_per_layout(conv, cpu)
    return bool(ranked) and ranked[0].config.template in _TEMPLATES


def _sum_of_parts(
    scope: Scope, call: relax.Call, conv: ConvWorkload, ends: Sequence[int]
) -> relax.Expr:
    data, weight = call.args[0], call.args[1].value.numpy()

    def of_part(begin: int, end: int) -> relax.Expr:
        channels = scope.emit(slice_of(data, [Range(CHANNELS, begin, end)]))
        part = replace(conv, in_channels=end - begin)
        filters = weight[:, begin:end].copy()
        return scope.emit(convolution(channels, filters, part, groups=1))

    return scope.combine(relax.op.add, [of_part(*each) for each in pairwise((0, *ends))])
