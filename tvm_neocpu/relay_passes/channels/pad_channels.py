"""Pad the output channels of convolutions to whole vectors.

A block divides the number of channels. For 58 channels a block is 2 or 29, and a vector of 2 leaves
14 of 16 lanes empty. With 6 channels of zeros behind them, blocks of 16 and 32 fit. Operations that
treat all channels alike carry the dead channels along, and so do concats where these stay few: six
tensors of 44 channels, each with 4 dead ones, are blocks of 48 that no copy cuts. The next dense
convolution multiplies dead channels by zero weights. A grouped one counts them as groups. In front
of any other reader slices drop them. A 1x1 layer whose result would be sliced right away fills its
vectors in the register tile instead: the slice takes as long as a fifth of it (Zen 3, one thread,
17x57x57->33: 20 of 122 us).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.relay_passes.channels.dead_channels import (
    Readers,
    Widened,
    channels_of,
    readers_of,
)
from tvm_neocpu.relay_passes.channels.padded_widths import FEW_ZEROS, fills_tiles, padded_output
from tvm_neocpu.relay_passes.channels.widen_groups import block_diagonal, groups_to_merge
from tvm_neocpu.relay_passes.ir.constants import constant_of
from tvm_neocpu.relay_passes.ir.exprs import op_name, over_variables, static_shape
from tvm_neocpu.relay_passes.ir.padding import PAD
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.layouts.channel_moves import MOVE
from tvm_neocpu.relay_passes.layouts.depth_windows import is_stack, takes_images
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY
from tvm_neocpu.relay_passes.layouts.flatten_concats import concat_axis
from tvm_neocpu.relay_passes.layouts.flow import FlowKind, is_feature_map
from tvm_neocpu.relay_passes.layouts.slices import (
    CHANNELS,
    Range,
    channel_range,
    read_slice,
    slice_of,
)
from tvm_neocpu.relay_passes.layouts.table import flow_of
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, convolution
from tvm_neocpu.relay_passes.operators.new.depth_rows import DEPTH_ROWS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

# Cycles in which a channel of a pixel is cut out of a padded part and stored beside the others, in
# blocks that fit neither (Emerald Rapids, five parts of 54 in 64 channels of 28x28 pixels in
# PNASNet-5 mobile: 190 us).
CUT_CYCLES = 2.5
# These turn a zero into an infinity, and a zero weight times infinity is NaN.
UNSAFE = frozenset(f"relax.{name}" for name in ("divide", "log", "power", "rsqrt"))


@dataclass(frozen=True)
class PadChannels:
    """Pad the outputs of dense convolutions to :func:`padded_output`.

    Needs: weights are constants; groups are widened and shuffles settled, because groups that do
    not divide the padded channels, and shuffles, end a run of padded tensors.
    Leaves: parameters, results and tensors between regions with the channels that they had.
    """

    name: ClassVar[str] = "pad-channels"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, lambda scope: _Rewriter(self.cpu, scope).run())


@dataclass
class _Rewriter:
    """One region; new variables by old ones: with the old channels, and with dead ones behind."""

    cpu: Cpu
    scope: Scope
    narrowed: dict[relax.Var, relax.Expr] = field(default_factory=dict)
    widened: dict[relax.Var, Widened] = field(default_factory=dict)
    readers: Readers = field(default_factory=Readers)
    shuffled: set[relax.Var] = field(default_factory=set)

    def run(self) -> None:
        bindings = self.scope.region.bindings
        self.readers = readers_of(bindings)
        self.shuffled = {b.value.args[0] for b in bindings if op_name(b.value) == MOVE}
        for binding in bindings:
            self._visit(binding.var, binding.value)
        for var in self.scope.region.outputs:
            self.scope.bind(var, self._narrow(var))

    def _visit(self, var: relax.Var, value: relax.Expr) -> None:
        if isinstance(value, relax.Var) and value in self.widened:
            self.widened[var] = self.widened[value]
            return
        wide = self._wide(var, value)
        if wide is None:
            self.narrowed[var] = self.scope.emit(self._narrow(value))
            return
        result = self.scope.emit(wide.expr)
        if len(wide.places) == channels_of(result):
            self.narrowed[var] = result
        else:
            self.widened[var] = Widened(result, wide.places)

    def _narrow(self, value: relax.Expr) -> relax.Expr:
        """The expression over new variables that have no dead channels."""

        def narrowed(variable: relax.Var) -> relax.Expr:
            if variable in self.widened and variable not in self.narrowed:
                whole = self.widened[variable]
                parts = [
                    self.scope.emit(slice_of(whole.expr, [Range(CHANNELS, *run)]))
                    for run in whole.runs
                ]
                several = len(parts) > 1
                joined = self.scope.emit(relax.op.concat(parts, CHANNELS)) if several else parts[0]
                self.narrowed[variable] = joined
            return self.narrowed.get(variable, variable)

        return over_variables(value, narrowed)

    def _wide(self, var: relax.Var, value: relax.Expr) -> Widened | None:
        """The call with padded operands or a padded result, not emitted yet; ``None`` if neither is
        padded.
        """
        conv = conv_workload(value)
        if conv is not None and conv.groups == 1:
            return self._dense(var, value, conv)
        if conv is not None and conv.is_depthwise:
            return self._depthwise(value, conv)
        if conv is not None:
            return self._grouped(value, conv)
        if concat_axis(value) == CHANNELS:
            return self._concat(var, value)
        if is_stack(value):
            return self._stack(var, value)
        if takes_images(value):
            return self._taken(value)
        flow = flow_of(value)
        if not flow.operands or not all(operand in self.widened for operand in flow.operands):
            return None
        operands = [self.widened[operand] for operand in flow.operands]
        alike = flow.kind is FlowKind.FOLLOW or op_name(value) in BINARY or _keeps_channels(value)
        widths = {operand.width for operand in operands}
        if not alike or len(widths) > 1 or _is_unsafe(value) or not is_feature_map(value):
            return None
        # The one whose channels lie side by side, so that fewest are moved.
        like = min(operands, key=lambda operand: len(operand.runs))
        args = [self._wide_arg(arg, like) for arg in value.args]
        call = relax.Call(value.op, args, value.attrs, value.ty_args)
        return Widened(call, like.places)

    def _concat(self, var: relax.Var, call: relax.Call) -> Widened | None:
        """Dead channels stay in the middle where a convolution reads them and they are few.

        Many stay where multiplying them takes less than cutting them out. A depthwise convolution
        computes many rather than channels that fill no vector.
        """
        parts = list(call.args[0].fields)
        if var not in self.readers.carried or not any(part in self.widened for part in parts):
            return None
        if var in self.shuffled:  # A shuffle reads none: they would be dropped behind the concat.
            return None
        places: list[int] = []
        exprs: list[relax.Expr] = []
        width = 0
        for part in parts:
            whole = self.widened.get(part)
            count = channels_of(part)
            own = range(count) if whole is None else whole.places
            places += [width + place for place in own]
            exprs.append(self._narrow(part) if whole is None else whole.expr)
            width += count if whole is None else whole.width
        many = width > FEW_ZEROS * len(places) and var not in self.readers.by_lanes
        if many and not self._cheaper_than_cuts(var, width - len(places), len(places)):
            return None
        # 64 + 58 channels are blocks of 2 or 61, 116 of 4: ShuffleNet-v2 took 1.02 times as long.
        if width & -width < len(places) & -len(places):
            return None
        return Widened(relax.op.concat(exprs, CHANNELS), tuple(places))

    def _cheaper_than_cuts(self, var: relax.Var, zeros: int, channels: int) -> bool:
        """Whether multiplying so many zeros takes less time than cutting them out of each part."""
        unit = self.cpu.unit("float32")
        cycles = zeros * self.readers.products[var] / (unit.lanes * self.cpu.fma_per_cycle)
        return cycles <= CUT_CYCLES * channels

    def _stack(self, var: relax.Var, call: relax.Call) -> Widened | None:
        """Each image of a stack has dead channels behind its own, if a convolution reads them."""
        image = self.widened.get(call.args[0])
        if image is None or var not in self.readers.carried:
            return None
        count, channels, *pixels = static_shape(call)
        taps = channels // len(image.places)
        stack = relax.op.reshape(image.expr, (count, taps * image.width, *pixels))
        places = (tap * image.width + place for tap in range(taps) for place in image.places)
        return Widened(stack, tuple(places))

    def _taken(self, call: relax.Call) -> Widened | None:
        images = self.widened.get(call.args[0])
        if images is None:
            return None
        return Widened(relax.Call(call.op, [images.expr, call.args[1]], call.attrs), images.places)

    def _dense(self, var: relax.Var, call: relax.Call, conv: ConvWorkload) -> Widened | None:
        width = padded_output(conv, self.cpu, var in self.readers.by_lanes)
        if var not in self.readers.carried and fills_tiles(conv, width, self.cpu):
            width = conv.out_channels
        data = self.widened.get(call.args[0])
        if data is None and width == conv.out_channels:
            return None
        weight = call.args[1].value.numpy()
        image = self._narrow(call.args[0]) if data is None else data.expr
        if data is not None:
            weight = data.spread(weight, 1, 0.0)
        wide = convolution(image, _extended(weight, 0, width, 0.0), conv, groups=1)
        return Widened(wide, tuple(range(conv.out_channels)))

    def _depthwise(self, call: relax.Call, conv: ConvWorkload) -> Widened | None:
        data = self.widened.get(call.args[0])
        if data is None or conv.out_channels != conv.in_channels:
            return None
        weight = data.spread(call.args[1].value.numpy(), 0, 0.0)
        return Widened(convolution(data.expr, weight, conv, groups=data.width), data.places)

    def _grouped(self, call: relax.Call, conv: ConvWorkload) -> Widened | None:
        """Dead groups behind the others, which may make groups that fill a vector.

        13 groups of 8 channels with one more are 7 groups of 16.
        """
        data, width = self.widened.get(call.args[0]), conv.in_channels // conv.groups
        behind = data is not None and data.places == tuple(range(conv.in_channels))
        if data is None or not behind or data.width % width:
            return None
        groups = data.width // width
        filters = conv.out_channels // conv.groups * groups
        weight = _extended(call.args[1].value.numpy(), 0, filters, 0.0)
        wide = replace(conv, in_channels=data.width, out_channels=filters, groups=groups)
        merged = groups_to_merge(wide, self.cpu.unit(conv.types.accumulator).full_rate_lanes)
        weight = block_diagonal(weight, groups, merged)
        merged_conv = convolution(data.expr, weight, conv, groups // merged)
        return Widened(merged_conv, tuple(range(conv.out_channels)))

    def _placed(self, whole: Widened, like: Widened) -> relax.Expr:
        """The tensor with its channels at another one's places: a copy where they lie elsewhere."""
        if whole.places == like.places:
            return whole.expr
        runs = whole.runs_in_places_of(like)
        parts = [self.scope.emit(slice_of(whole.expr, [Range(CHANNELS, *run)])) for run in runs]
        return self.scope.emit(relax.op.concat(parts, CHANNELS))

    def _wide_arg(self, arg: relax.Expr, like: Widened) -> relax.Expr:
        if isinstance(arg, relax.Var):
            return self._placed(self.widened[arg], like)
        if not isinstance(arg, GenericConst) or arg.value.numpy().size == 1:
            return arg
        values = arg.value.numpy()  # (C,) of a normalisation, else (C, 1, 1) or (1, C, 1, 1)
        return constant_of(like.spread(values, max(-3, -values.ndim), 1.0))


def _is_unsafe(value: relax.Expr) -> bool:
    """Whether zeros may become NaN or infinite."""
    no_epsilon = op_name(value) == "relax.nn.instance_norm" and value.attrs.epsilon <= 0
    return no_epsilon or op_name(value) in UNSAFE


def _keeps_channels(value: relax.Expr) -> bool:
    """Whether it is a slice of rows and columns, a pad of the batch, or rows of its images."""
    if op_name(value) in (PAD, DEPTH_ROWS):
        return True
    ranges = read_slice(value)
    return ranges is not None and channel_range(ranges) is None


def _extended(array: np.ndarray, axis: int, length: int, fill: float) -> np.ndarray:
    """The array extended to ``length`` along one axis, with entries of ``fill``."""
    more: list[Sequence[int]] = [(0, 0)] * array.ndim
    more[axis] = (0, length - array.shape[axis])
    return np.pad(array, more, constant_values=fill)
