"""1x1 convolutions of upsampled maps, computed before these grow.

A 1x1 convolution mixes channels, a resize mixes pixels, and both are linear: either may be first.
A concat splits the convolution into one for each part::

    y = conv2d(concat(resize(a), b), w)    ->    y = conv2d(b, w_b) + resize(conv2d(a, w_a))

Feature pyramids do so (SegFormer's head, YOLO's neck): of twice the size a quarter of the products
is left. What stands in front of a resize may fold into the convolution then
(:class:`..linear.fold_linear_ops.FoldLinearOps`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import FP32
from tvm_neocpu.relay_passes.ir.constants import Array, constant_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, static_shape
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.flatten_concats import concat_axis
from tvm_neocpu.relay_passes.operators.conv2d import OP, conv_workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.moves import FAR_BYTES_PER_CYCLE

RESIZE = "relax.image.resize2d"
# Its pixels beyond the image have a value of their own: no weighted mean of what is there.
CROPPED = "tf_crop_and_resize"


@dataclass(frozen=True)
class LateResizes:
    """Each 1x1 convolution of maps that only such convolutions read, if that takes less time.

    Needs: weights are constants; batch norms are folded, which would stand behind a sum.
    Leaves: resizes of the convolutions' results; neighbours that linear folding may merge.
    """

    name: ClassVar[str] = "late-resizes"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, self._late)

    def _late(self, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        conv = _pointwise(value)
        if conv is None or not _only_pointwise(scope.region, value.args[0]):
            return None
        parts = _parts_of(scope, value.args[0])
        moved = [part for part in parts if self._gains(scope, part, conv)]
        if not moved:
            return None
        weight = value.args[1].value.numpy()
        terms = []
        kept = [part for part in parts if part not in moved]
        if kept:
            maps = [part.tensor for part in kept]
            data = maps[0] if len(maps) == 1 else scope.emit(relax.op.concat(maps, axis=1))
            terms.append(_convolved(data, weight, kept))
        for part in moved:
            terms.append(part.resized(scope, _convolved(part.source, weight, [part])))
        return _sum(scope, terms)

    def _gains(self, scope: Scope, part: _Part, conv: ConvWorkload) -> bool:
        """Whether fewer products save more than a map of more channels costs."""
        if not part.resizes or not _only_here(scope.region, part.tensor):
            return False
        before, after = (math.prod(static_shape(each)[2:]) for each in (part.source, part.tensor))
        channels = part.stop - part.start
        saved = 2 * conv.batch * conv.out_channels * channels * (after - before)
        seconds = saved / (self.cpu.peak_gflops("float32") * 1e9 * self.cpu.cores)
        grown = 2 * 4 * conv.batch * max(0, conv.out_channels - channels) * after
        return seconds > grown / FAR_BYTES_PER_CYCLE / self.cpu.cores / (self.cpu.ghz * 1e9)


@dataclass(frozen=True, eq=False)
class _Part:
    """Channels ``start`` to ``stop`` of what a convolution reads; ``resizes`` make them of fewer
    pixels, the first one first.
    """

    tensor: relax.Expr
    start: int
    stop: int
    resizes: tuple[relax.Call, ...] = ()

    @property
    def source(self) -> relax.Expr:
        return self.resizes[0].args[0] if self.resizes else self.tensor

    def resized(self, scope: Scope, small: relax.Expr) -> relax.Expr:
        """The same resizes of another map; the last one is not emitted."""
        for call in self.resizes:
            args = [scope.emit(small), *call.args[1:]]
            small = relax.Call(call.op, args, call.attrs, call.ty_args)
        return small


def _pointwise(value: relax.Expr) -> ConvWorkload | None:
    conv = conv_workload(value) if call_of(value, OP) is not None else None
    is_one = conv is not None and conv.is_pointwise and conv.groups == 1
    return conv if is_one and conv.types == FP32 else None


def _only_pointwise(region: Region, data: relax.Expr) -> bool:
    """Whether 1x1 convolutions alone read the map."""
    readers = region.readers.get(data, ())
    if not isinstance(data, relax.Var) or region.uses[data] != len(readers):
        return False
    return all(_pointwise(reader.value) is not None for reader in readers)


def _only_here(region: Region, tensor: relax.Expr) -> bool:
    """Whether a concat, or such convolutions, and nothing else read a resized map."""
    readers = region.readers.get(tensor, ())
    once = region.uses[tensor] == 1 and concat_axis(readers[0].value) is not None
    return once or _only_pointwise(region, tensor)


def _parts_of(scope: Scope, data: relax.Expr) -> list[_Part]:
    """What a concat by channels reads, or the map alone."""
    concat = scope.definition(data)
    tensors = list(concat.args[0]) if concat_axis(concat) == 1 else [data]
    parts, start = [], 0
    for tensor in tensors:
        stop = start + int(static_shape(tensor)[1])
        parts.append(_Part(tensor, start, stop, tuple(_upsampling(scope, tensor))[::-1]))
        start = stop
    return parts


def _upsampling(scope: Scope, tensor: relax.Expr) -> Iterator[relax.Call]:
    """The resizes, the last one first, that make a map of a smaller one which nobody else reads."""
    while (call := _weighted_means(scope.definition(tensor))) is not None:
        yield call
        tensor = call.args[0]
        if not isinstance(tensor, relax.Var) or scope.region.uses[tensor] > 1:
            return


def _weighted_means(value: relax.Expr) -> relax.Call | None:
    """A resize to more pixels, each a weighted mean of those before."""
    call = call_of(value, RESIZE)
    if call is None or str(call.attrs.coordinate_transformation_mode) == CROPPED:
        return None
    before, after = static_shape(call.args[0]), static_shape(call)
    known = before is not None and after is not None and len(before) == 4
    is_plain = str(call.attrs.layout) == "NCHW" and call.ty.dtype == call.args[0].ty.dtype
    return call if known and is_plain and math.prod(before[2:]) < math.prod(after[2:]) else None


def _sum(scope: Scope, terms: Sequence[relax.Expr]) -> relax.Expr:
    """The first term and the sum of the others, added; not emitted."""
    *before, total = terms
    for term in reversed(before):
        total = relax.op.add(scope.emit(term), scope.emit(total))
    return total


def _convolved(data: relax.Expr, weight: Array, parts: Sequence[_Part]) -> relax.Expr:
    """The convolution of some parts, which are ``data``; not emitted."""
    channels = [channel for part in parts for channel in range(part.start, part.stop)]
    return relax.op.nn.conv2d(data, constant_of(weight[:, channels]))


__all__ = ["LateResizes"]
