"""Merge narrow groups of a convolution until a group fills a vector.

A group of 4 channels leaves 12 of 16 lanes empty, and its layout NCHW4c leaves them empty in the
neighbouring operations too. Block-diagonal weights compute several groups as one: the zeros take
the lanes that were idle before, and the layout is a whole vector wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


@dataclass(frozen=True)
class WidenGroups:
    """Merge the groups of conv2d calls that have several groups and are not depthwise.

    Needs: weights are constants; linear operations are folded, which would multiply zeros too.
    Leaves: these calls with a vector at full rate of inputs and outputs a group, or one group;
    narrow groups where merging would multiply mostly zeros (13 groups of 8), for PadChannels.
    """

    name: ClassVar[str] = "widen-groups"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, self._rewrite)

    def _rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        conv = conv_workload(value)
        if conv is None or conv.is_depthwise:
            return None
        merged = groups_to_merge(conv, self.cpu.unit(conv.types.accumulator).full_rate_lanes)
        if merged == 1:
            return None
        weight = block_diagonal(value.args[1].value.numpy(), conv.groups, merged)
        return convolution(value.args[0], weight, conv, conv.groups // merged)


def groups_to_merge(conv: ConvWorkload, lanes: int) -> int:
    """The min number of neighbouring groups that have ``lanes`` inputs and outputs together.

    All groups if even these have fewer. 1 if there is nothing to merge, or if only groups of two
    vectors and more would come of it: of 13 groups of 8 channels, one of 104 would.
    """
    narrower = min(conv.in_channels, conv.out_channels) // conv.groups
    if conv.groups == 1 or narrower >= lanes:
        return 1
    enough = [count for count in factors(conv.groups) if count * narrower >= lanes]
    count = enough[0] if enough else conv.groups
    return count if count * narrower < 2 * lanes else 1


def block_diagonal(weight: np.ndarray, groups: int, merged: int) -> np.ndarray:
    """(K, C/groups, R, S) -> (K, C/groups * merged, R, S), zero outside an output's old group."""
    out_channels, width, height, columns = weight.shape
    wide = np.zeros((out_channels, merged, width, height, columns), weight.dtype)
    own = np.arange(out_channels) // (out_channels // groups) % merged
    wide[np.arange(out_channels), own] = weight
    return wide.reshape(out_channels, merged * width, height, columns)
