"""Integer convolutions say how small their weights are, where the CPU multiplies small ones faster.

y = conv2d(x, weight)         ->    y = padded_conv2d(x, weight, weight_bits=7)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.relay_passes.operators.new.padded_conv2d import padded_conv2d, padded_workload
from tvm_neocpu.topi.conv2d_integer.small_weights import SUMMED, small_bits


@dataclass(frozen=True)
class NoteWeightBits:
    """Weights are looked at once, here: what is found belongs to the workload from now on.

    Needs: passes that know ``conv2d`` only are through, and those that change weights.
    Leaves: depthwise convolutions, whose products are not added up; CPUs whose instructions do not
    care.
    """

    cpu: Cpu
    name: ClassVar[str] = "note-weight-bits"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        if self.cpu.dot(U8S8, min(SUMMED)) == self.cpu.dot(U8S8):
            return mod
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    conv = conv_workload(value) or padded_workload(value)
    if conv is None or conv.types != U8S8 or conv.is_depthwise:
        return None
    data, weight = value.args
    noted = replace(conv, weight_bits=small_bits(weight.value.numpy()))
    return None if noted == conv else padded_conv2d(data, weight, noted)
