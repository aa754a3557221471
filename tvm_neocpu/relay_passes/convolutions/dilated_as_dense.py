"""Dilated convolutions as dense ones over the same pixels in another order.

y = conv2d(x, W, dilation=(2, 2))
->
s = the even rows of x, a gap of zeros, the odd rows, a gap; its columns likewise
t = conv2d(s, W)
y = the rows and columns of t in turns, without what it has of the gaps

Winograd's algorithm takes dense kernels only, and of 3x3 taps it leaves half of the products or
fewer. A large dilation on a small image is left: with 12 on 33x33 pixels (DeepLab's head) two
fifths of a dilated kernel's products are with padding, which the direct template leaves out.

Winograd's algorithm stores up to four times the weights. So a file may grow by as much as the
network's convolutions have, or by MAY_GROW, and those layers go first that gain most for a byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import MIB, Cpu
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.types import FP32, item_bytes
from tvm_neocpu.relay_passes.ir.exprs import static_shape4
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.slices import cropped
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.moves import moving_seconds
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.table import implementation_of

# Bytes of a map that a core moves in a cycle: out of blocks, to its place, into blocks.
MOVED_BYTES_PER_CYCLE = 2.0
# What the convolution must gain: its neighbours in the network lose their common layout.
LEAST_GAIN = 1.2
# Bytes that the file of a small network may grow by.
MAY_GROW = 32 * MIB


@dataclass(frozen=True)
class DilatedAsDense:
    """A dilated conv2d becomes a dense one over reordered pixels where that is predicted to pay.

    Needs: linear operations are folded, which read dilated convolutions too.
    Leaves: dilated convolutions that have groups, a stride or one tap along an axis, others whose
    products cost less than moving their maps, and those whose weights would grow the file too much.
    """

    name: ClassVar[str] = "dilated-as-dense"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        chosen = chosen_of(_convolutions(mod), self.cpu)

        def rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            conv = conv_workload(value)
            other = None if conv is None else chosen.get(conv)
            return None if other is None else _as_dense(scope, value, conv, other)

        return rewrite_values(mod, rewrite) if chosen else mod


def _convolutions(mod: tvm.IRModule) -> Counter[ConvWorkload]:
    values = (
        getattr(binding, "value", None)
        for _, function in relax_functions(mod)
        for binding in bindings_of(function)
    )
    return Counter(conv for value in values if (conv := conv_workload(value)) is not None)


def chosen_of(convs: Mapping[ConvWorkload, int], cpu: Cpu) -> dict[ConvWorkload, ConvWorkload]:
    """The dilated convolutions of a network that become dense ones, and these.

    ``convs``: how often the network has each of its convolutions.
    """
    swaps = [swap for conv in convs if (swap := swap_of(conv, cpu)) is not None]
    weights = sum(conv.weight_bytes * count for conv, count in convs.items())
    left, chosen = max(weights, MAY_GROW), {}
    for swap in sorted(swaps, key=lambda swap: swap.saved / max(1, swap.added), reverse=True):
        added = swap.added * convs[swap.conv]
        if added <= left:
            left -= max(0, added)
            chosen[swap.conv] = swap.dense
    return chosen


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


@dataclass(frozen=True)
class Swap:
    """A dilated convolution, and the dense one that is predicted to take less time with the moves.

    ``saved``: seconds; ``added``: bytes of packed weights.
    """

    conv: ConvWorkload
    dense: ConvWorkload
    saved: float
    added: int


def swap_of(conv: ConvWorkload, cpu: Cpu) -> Swap | None:
    """``None`` where it does not pay."""
    other = dense(conv) if _is_candidate(conv) else None
    if other is None:
        return None
    dilated, made = (best_per_layout(each, cpu) for each in (conv, other))
    if not dilated or not made:
        return None
    seconds = made[0].seconds + moving_seconds(other, MOVED_BYTES_PER_CYCLE, cpu)
    if dilated[0].seconds <= LEAST_GAIN * seconds:
        return None
    added = _packed_bytes(other, made[0]) - _packed_bytes(conv, dilated[0])
    return Swap(conv, other, dilated[0].seconds - seconds, added)


def _packed_bytes(conv: ConvWorkload, candidate: Candidate) -> int:
    packed_shape = implementation_of(candidate.config).packed_shape
    assert packed_shape is not None, "a convolution has weights"
    return prod(packed_shape(conv, candidate.config)) * item_bytes(conv.types.weight)


def _as_dense(
    scope: Scope, call: relax.Call, conv: ConvWorkload, other: ConvWorkload
) -> relax.Expr:
    rows, columns = (_axis(conv, axis) for axis in (0, 1))
    widths = [0, 0, 0, 0]
    for axis, extent in ((rows, conv.height), (columns, conv.width)):
        widths += [axis.first, axis.extent - axis.first - extent]
    data = scope.emit(relax.op.nn.pad(call.args[0], widths)) if any(widths) else call.args[0]
    data = _turned(scope, data, (rows.period, rows.step, columns.period, columns.step))
    made = scope.emit(convolution(data, call.args[1].value.numpy(), other, groups=1))
    made = _turned(scope, made, (rows.step, rows.period, columns.step, columns.period))
    return cropped(made, (0, 0), (conv.out_height, conv.out_width))


def _turned(scope: Scope, image: relax.Expr, split: tuple[int, int, int, int]) -> relax.Expr:
    """Rows as (a, b) in the order (b, a), columns as (c, d) likewise: phases apart, or in turns."""
    emit, (a, b, c, d) = scope.emit, split
    outer = static_shape4(image)[:2]
    apart = emit(relax.op.reshape(image, (*outer, a, b, c, d)))
    apart = emit(relax.op.permute_dims(apart, [0, 1, 3, 2, 5, 4]))
    return emit(relax.op.reshape(apart, (*outer, a * b, c * d)))


__all__ = ["DilatedAsDense", "Swap", "chosen_of", "dense", "swap_of"]
