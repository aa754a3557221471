"""Dilated convolutions as dense ones over the same pixels in another order.

y = conv2d(x, W, dilation=(2, 2))
->
s = the even rows of x, a gap of zeros, the odd rows, a gap; its columns likewise
t = conv2d(s, W)
y = the rows and columns of t in turns, without what it has of the gaps

Winograd's algorithm takes dense kernels only, and of 3x3 taps it leaves half of the products or
fewer. Phases of few rows gain most: with a dilation of 12 on 33x33 pixels (DeepLab's head) two
fifths of a dilated kernel's products are with padding, of which neighbours share a gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.types import FP32
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.slices import cropped
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import best_per_layout

# Bytes of a map that a core moves in a cycle: out of blocks, to its place, into blocks.
MOVED_BYTES_PER_CYCLE = 2.0
# What the convolution must gain: its neighbours in the network lose their common layout.
LEAST_GAIN = 1.2


@dataclass(frozen=True)
class DilatedAsDense:
    """A dilated conv2d becomes a dense one over reordered pixels where that is predicted to pay.

    Needs: linear operations are folded, which read dilated convolutions too.
    Leaves: dilated convolutions that have groups, a stride or one tap along an axis, and others
    whose products cost less than moving their maps.
    """

    name: ClassVar[str] = "dilated-as-dense"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, self._rewrite)

    def _rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        conv = conv_workload(value)
        if conv is None or not _is_candidate(conv):
            return None
        return _as_dense(scope, value, conv) if pays(conv, self.cpu) else None


def _is_candidate(conv: ConvWorkload) -> bool:
    dense = conv.groups == 1 and conv.stride == (1, 1) and min(conv.kernel) > 1
    return dense and max(conv.dilation) > 1 and conv.types == FP32


@dataclass(frozen=True)
class _Axis:
    """One axis: ``step`` phases of ``period`` pixels, a gap included.

    ``first`` pixels of padding come in front of the image, ``before`` in front of every phase.
    """

    step: int
    first: int
    period: int
    before: int
    taps: int

    @property
    def extent(self) -> int:
        return self.step * self.period


def _axis(conv: ConvWorkload, axis: int) -> _Axis:
    """Padding that is no multiple of the dilation belongs to the image."""
    step, extent = conv.dilation[axis], (conv.height, conv.width)[axis]
    before, behind = conv.padding[axis], conv.padding[2 + axis]
    image = ceil((before % step + extent) / step)
    whole = ceil((before + extent + behind) / step)
    of_phase = before // step
    gap = max(of_phase, whole - of_phase - image)
    return _Axis(step, before % step, image + gap, of_phase, conv.kernel[axis])


def dense(conv: ConvWorkload) -> ConvWorkload | None:
    """The dense convolution that takes a dilated one's place, with as many outputs as pixels.

    ``None`` if it would have more padding than a kernel reaches.
    """
    rows, columns = (_axis(conv, axis) for axis in (0, 1))
    behind = [axis.taps - 1 - axis.before for axis in (rows, columns)]
    if min(behind) < 0:
        return None
    return replace(
        conv,
        height=rows.extent,
        width=columns.extent,
        dilation=(1, 1),
        padding=(rows.before, columns.before, *behind),
    )


def pays(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Whether the dense convolution and the moves are predicted to take less time."""
    other = dense(conv)
    if other is None:
        return False
    dilated, made = (best_per_layout(each, cpu) for each in (conv, other))
    if not dilated or not made:
        return False
    moved = (other.in_bytes + other.out_bytes) / MOVED_BYTES_PER_CYCLE / cpu.cores
    return dilated[0].seconds > LEAST_GAIN * (made[0].seconds + moved / (cpu.ghz * 1e9))


def _as_dense(scope: Scope, call: relax.Call, conv: ConvWorkload) -> relax.Expr:
    emit, other = scope.emit, dense(conv)
    assert other is not None, "it pays"
    rows, columns = (_axis(conv, axis) for axis in (0, 1))
    widths = [0, 0, 0, 0]
    for axis, extent in ((rows, conv.height), (columns, conv.width)):
        widths += [axis.first, axis.extent - axis.first - extent]
    data = emit(relax.op.nn.pad(call.args[0], widths)) if any(widths) else call.args[0]
    outer = (conv.batch, conv.in_channels)
    apart = (*outer, rows.period, rows.step, columns.period, columns.step)
    data = emit(relax.op.reshape(data, apart))
    data = emit(relax.op.permute_dims(data, [0, 1, 3, 2, 5, 4]))
    data = emit(relax.op.reshape(data, (*outer, rows.extent, columns.extent)))
    made = emit(convolution(data, call.args[1].value.numpy(), other, groups=1))
    outer = (conv.batch, conv.out_channels)
    apart = (*outer, rows.step, rows.period, columns.step, columns.period)
    made = emit(relax.op.reshape(made, apart))
    made = emit(relax.op.permute_dims(made, [0, 1, 3, 2, 5, 4]))
    made = emit(relax.op.reshape(made, (*outer, rows.extent, columns.extent)))
    return cropped(made, (0, 0), (conv.out_height, conv.out_width))


__all__ = ["DilatedAsDense", "dense", "pays"]
