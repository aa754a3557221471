"""Shuffle channels at compile time, in the weights of the convolutions around a channel shuffle.

An operation that treats all channels alike commutes with a permutation of channels. So a shuffle
can travel past such operations to the next dense convolution, and permute its weight instead::

    y = shuffle(relu(conv2d(x, W)))    ->    y = relu(conv2d(x, W[order]))
    z = conv2d(shuffle(y), V)          ->    z = conv2d(y, V[:, inverse])
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.constants import constant_of
from tvm_neocpu.relay_passes.ir.exprs import static_shape, variables
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.layouts.channel_moves import Shuffle, read_channel_move
from tvm_neocpu.relay_passes.layouts.flow import FlowKind, is_feature_map
from tvm_neocpu.relay_passes.layouts.table import flow_of
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload

INPUTS = 1  # of a weight in OIHW

Changed = dict[relax.Var, relax.Expr]


@dataclass(frozen=True)
class FoldChannelShuffle:
    """Remove each shuffle that its producer, or else all its readers, can absorb.

    A producer absorbs it if nothing else reads what it makes. A grouped convolution does not absorb
    a shuffle, which carries channels from group to group.

    Needs: channel shuffles are single calls (:class:`MarkChannelMoves`); weights are constants.
    Leaves: shuffles next to grouped convolutions, to ends of regions and to operations that mix
    channels.
    """

    name: ClassVar[str] = "fold-channel-shuffle"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, lambda scope: _Folder(scope).fold())


@dataclass
class _Folder:
    """The values of one region, replaced as shuffles are absorbed."""

    scope: Scope
    values: Changed = field(default_factory=dict)
    readers: dict[relax.Var, list[relax.Var]] = field(default_factory=lambda: defaultdict(list))

    def fold(self) -> None:
        for binding in self.scope.region.bindings:
            self._enter(binding)
        for var in list(self.values):
            move = read_channel_move(self.values[var])
            if isinstance(move, Shuffle) and is_feature_map(var):
                self._absorb(var, move)
        for var, value in self.values.items():
            self.scope.bind(var, value)

    def _enter(self, binding: relax.VarBinding) -> None:
        self.values[binding.var] = binding.value
        for var in variables(binding.value):
            self.readers[var].append(binding.var)

    def _absorb(self, var: relax.Var, move: Shuffle) -> None:
        source = self.values[var].args[0]
        order = shuffled_order(static_shape(var)[1], move.groups)
        changed = self._upstream(source, order) or self._downstream(var, np.argsort(order))
        if changed is not None:
            self.values.update(changed)
            self.values[var] = source

    def _upstream(self, var: relax.Var, order: np.ndarray) -> Changed | None:
        """The bindings to change so that ``var`` holds its channels in ``order``."""
        value = self.values.get(var)
        if value is None or self.scope.region.uses[var] != 1:
            return None
        conv = conv_workload(value)
        if conv is not None and conv.groups == 1:
            return {var: with_weight(value, value.args[1].value.numpy()[order])}
        alike = in_order(value, order)
        further = self._upstream(flow_of(value).operands[0], order) if alike is not None else None
        return None if further is None else {**further, var: alike}

    def _downstream(self, var: relax.Var, order: np.ndarray) -> Changed | None:
        """The readers' bindings to change if ``var`` holds its channels in ``order``."""
        readers = self.readers[var]
        if not readers or self.scope.region.uses[var] != len(readers):
            return None
        changed: Changed = {}
        for reader in readers:
            further = self._in_reader(reader, order)
            if further is None:
                return None
            changed.update(further)
        return changed

    def _in_reader(self, reader: relax.Var, order: np.ndarray) -> Changed | None:
        value = self.values[reader]
        conv = conv_workload(value)
        if conv is not None and conv.groups == 1:
            weight = value.args[1].value.numpy().take(order, axis=INPUTS)
            return {reader: with_weight(value, weight)}
        alike = in_order(value, order)
        further = self._downstream(reader, order) if alike is not None else None
        return None if further is None else {reader: alike, **further}


def shuffled_order(channels: int, groups: int) -> np.ndarray:
    """The channel that stands at each place after a shuffle, (C,)."""
    return np.arange(channels).reshape(groups, -1).T.reshape(-1)


def in_order(value: relax.Expr, order: np.ndarray) -> relax.Expr | None:
    """The call on an operand with its channels in ``order``; ``None`` if it mixes channels."""
    conv = conv_workload(value)
    if conv is not None and conv.is_depthwise and conv.out_channels == conv.in_channels:
        return with_weight(value, value.args[1].value.numpy()[order])
    if flow_of(value).kind is not FlowKind.FOLLOW or not is_feature_map(value):
        return None
    if not all(_has_channels(arg, len(order)) for arg in value.args):
        return None
    args = [_constant_in_order(arg, order) for arg in value.args]
    return relax.Call(value.op, args, value.attrs, value.ty_args, ret_ty=value.ty)


def _has_channels(arg: relax.Expr, channels: int) -> bool:
    """False for a constant whose channels are another axis, as an instance norm's."""
    if not isinstance(arg, GenericConst) or arg.value.numpy().size == 1:
        return True
    shape = arg.value.numpy().shape
    return len(shape) >= 3 and shape[-3] == channels


def _constant_in_order(arg: relax.Expr, order: np.ndarray) -> relax.Expr:
    if not isinstance(arg, GenericConst) or arg.value.numpy().size == 1:
        return arg
    return relax.const(arg.value.numpy().take(order, axis=-3))


def with_weight(call: relax.Call, weight: np.ndarray) -> relax.Expr:
    """The convolution with another weight."""
    args = [call.args[0], constant_of(weight)]
    return relax.Call(call.op, args, call.attrs, call.ty_args, ret_ty=call.ty)


__all__ = ["FoldChannelShuffle", "shuffled_order"]
