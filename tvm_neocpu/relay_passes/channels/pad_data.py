"""Pad the channels of a convolution's own data where their count fits no vector.

A block of 44 channels is 11 vectors of 4, which leaves a depthwise layer room for a register tile
of one pixel; 17 channels are read one by one. 48 and 24 are whole vectors. A dense layer over 565
channels, as concats with flows and correlations make them, has blocks of 5 and no Winograd; over
576 it has both. Where a dense convolution makes the data, :class:`PadChannels` has padded it
already. What is left reads a network's input, a concat, or something that ended a run of padded
tensors.
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
from tvm_neocpu.topi.cost.moves import FAR_BYTES_PER_CYCLE, copying_seconds, moving_seconds
from tvm_neocpu.topi.cost.ranking import best_per_layout

# What was padded already, by region, tensor and number of dead channels.
Filled: TypeAlias = dict[tuple[Scope, relax.Expr, int], relax.Var]
# Passes over the data of a dense layer: its padding, and a transform of the padded.
DENSE_PASSES = 2
# By how much a dense layer must be predicted to gain: timed alone, some of 45 to 195 channels over
# 28x28 pixels gained nothing.
MARGIN = 1.2


@dataclass(frozen=True)
class PadData:
    """A depthwise or dense conv2d gets dead channels of its input, if that is predicted to pay.

    Needs: channels are padded where dense convolutions make them (:class:`PadChannels`).
    Leaves: results with the channels that they had.
    """

    name: ClassVar[str] = "pad-data"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, partial(self._rewrite, {}))

    def _rewrite(self, filled: Filled, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        conv = conv_workload(value)
        if conv is None or conv.types != FP32:
            return None
        dead = dead_channels(conv, self.cpu)
        if dead == 0:
            return None
        axis = 0 if conv.is_depthwise else 1
        widths = [(0, dead if each == axis else 0) for each in range(4)]
        weight = np.pad(value.args[1].value.numpy(), widths)
        key = (scope, scope.resolve(value.args[0]), dead)
        if key not in filled:  # several layers, or phases of a transposed one, may read one tensor
            filled[key] = scope.emit(relax.op.nn.pad(key[1], [0, 0, 0, dead, 0, 0, 0, 0]))
        if not conv.is_depthwise:
            return convolution(filled[key], weight, conv, groups=1)
        whole = scope.emit(convolution(filled[key], weight, conv, groups=len(weight)))
        return slice_of(whole, [Range(CHANNELS, 0, conv.out_channels)])


def dead_channels(conv: ConvWorkload, cpu: Cpu) -> int:
    """How many dead channels make whole vectors; 0 where they do not pay."""
    lanes = cpu.unit(conv.types.accumulator).full_rate_lanes
    dead = -conv.in_channels % lanes
    is_dense = conv.groups == 1
    fits = is_dense or (conv.is_depthwise and conv.multiplier == 1)
    if dead == 0 or conv.in_channels < lanes or not fits:
        return 0
    channels = conv.in_channels + dead
    wide = replace(conv, in_channels=channels)
    if is_dense:
        moving = DENSE_PASSES * copying_seconds(wide, cpu)
    else:
        wide = replace(wide, out_channels=channels, groups=channels)
        moving = moving_seconds(wide, FAR_BYTES_PER_CYCLE, cpu)
    alone, filled = (best_per_layout(each, cpu)[0].seconds for each in (conv, wide))
    return dead if alone > (MARGIN if is_dense else 1.0) * (filled + moving) else 0


__all__ = ["PadData", "dead_channels"]
