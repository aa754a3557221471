"""Pad a depthwise convolution's own channels where its data's count fits no vector.

A block of 44 channels is 11 vectors of 4, which leaves room for a register tile of one pixel; 17
channels are read one by one. 48 and 24 are whole vectors. Where a dense convolution makes the data
:class:`PadChannels` has padded them already. What is left reads a network's input, or something
that ended a run of padded tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import FP32
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS, Range, slice_of
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.moves import FAR_BYTES_PER_CYCLE, moving_seconds
from tvm_neocpu.topi.cost.ranking import best_per_layout

# What was padded already: in a region, a tensor, by so many channels.
Filled: TypeAlias = dict[tuple[Scope, relax.Expr, int], relax.Var]


@dataclass(frozen=True)
class PadDepthwise:
    """A depthwise conv2d of a broken vector gets dead channels, if that is predicted to pay.

    Needs: channels are padded where dense convolutions make them (:class:`PadChannels`).
    Leaves: results with the channels that they had.
    """

    name: ClassVar[str] = "pad-depthwise"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, partial(self._rewrite, {}))

    def _rewrite(self, filled: Filled, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        conv = conv_workload(value)
        if conv is None or not conv.is_depthwise or conv.multiplier > 1 or conv.types != FP32:
            return None
        dead = dead_channels(conv, self.cpu)
        if dead == 0:
            return None
        weight = np.pad(value.args[1].value.numpy(), ((0, dead), (0, 0), (0, 0), (0, 0)))
        key = (scope, scope.resolve(value.args[0]), dead)
        if key not in filled:  # the phases of a transposed convolution read one tensor
            filled[key] = scope.emit(relax.op.nn.pad(key[1], [0, 0, 0, dead, 0, 0, 0, 0]))
        data = filled[key]
        whole = scope.emit(convolution(data, weight, conv, groups=len(weight)))
        return slice_of(whole, [Range(CHANNELS, 0, conv.out_channels)])


def dead_channels(conv: ConvWorkload, cpu: Cpu) -> int:
    """How many dead channels make whole vectors; 0 where they do not pay."""
    lanes = cpu.unit(conv.types.accumulator).full_rate_lanes
    dead = -conv.in_channels % lanes
    if dead == 0 or conv.in_channels < lanes:
        return 0
    channels = conv.in_channels + dead
    wide = replace(conv, in_channels=channels, out_channels=channels, groups=channels)
    alone, filled = (best_per_layout(each, cpu)[0].seconds for each in (conv, wide))
    return dead if alone > filled + moving_seconds(wide, FAR_BYTES_PER_CYCLE, cpu) else 0


__all__ = ["PadDepthwise", "dead_channels"]
