"""What an operation does with the layouts of its inputs: NeoCPU's three classes (section 3.2).

Layout-oblivious operations and layout-tolerant ones hand their input's layout on; a join forces
several inputs into one; a convolution chooses; every other operation depends on plain NCHW. The
operations themselves are listed in :mod:`.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape


class FlowKind(Enum):
    """What an operator does with its inputs' layouts."""

    WORKLOAD = "workload"
    FOLLOW = "follow"
    JOIN = "join"
    BOUNDARY = "boundary"


@dataclass(frozen=True)
class Flow:
    """The kind, and the operands (variables) whose layout counts; rank-4 feature maps.

    ``join_channels``: the channel counts that a join's block must divide. ``plain``: feature maps
    that a workload reads in plain NCHW, whatever layout it chooses (a deformable convolution's
    offsets), by the names of its operands.
    """

    kind: FlowKind
    operands: tuple[relax.Expr, ...] = ()
    join_channels: tuple[int, ...] = ()
    plain: tuple[tuple[str, relax.Expr], ...] = ()


BOUNDARY = Flow(FlowKind.BOUNDARY)

# What the element types of feature maps begin with: int64 counts and indexes, it is no map.
_NUMBERS = ("float", "uint8", "int8", "int16", "uint16", "int32")

# Emits an expression and returns the variable that it is bound to.
Emit = Callable[[relax.Expr], relax.Expr]


@dataclass(frozen=True)
class BlockedOperands:
    """The operands of a call as they are stored now, all in ``layout``; ``old`` are the call's."""

    old: Sequence[relax.Expr]
    new: Sequence[relax.Expr]
    layout: Layout
    emit: Emit

    def args_of(self, call: relax.Call) -> list[relax.Expr]:
        """The call's arguments over them; constants in the shape that broadcasts over blocks."""
        replaced = dict(zip(self.old, self.new, strict=True))
        return [replaced[a] if a in replaced else constant_in(a, self.layout) for a in call.args]


@dataclass(frozen=True)
class LayoutRule:
    """How layouts flow through calls of one operator, and the call over blocked operands.

    ``flow(call)`` classifies a call over plain NCHW. ``blocked(call, operands)`` is the same
    operation over operands that are stored in a blocked layout; not yet emitted.
    """

    flow: Callable[[relax.Call], Flow]
    blocked: Callable[[relax.Call, BlockedOperands], relax.Expr]


def same_call(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    """The call with other arguments: for operations that have no layout attribute."""
    return relax.Call(call.op, operands.args_of(call), call.attrs, call.ty_args)


def follow_first(call: relax.Call) -> Flow:
    """The first argument's layout is handed on."""
    return Flow(FlowKind.FOLLOW, (call.args[0],))


def is_feature_map(expr: relax.Expr) -> bool:
    """A tensor of static shape (N, C, H, W): of floats, or of a quantised network's integers."""
    shape = static_shape(expr)
    return shape is not None and len(shape) == 4 and dtype_of(expr).startswith(_NUMBERS)


def channels_of(expr: relax.Expr) -> int:
    """Channels of a feature map."""
    shape = static_shape(expr)
    assert shape is not None
    return shape[1]


def per_channel_constant(expr: relax.Expr, channels: int) -> bool:
    """A constant that broadcasts over batch and pixels: a scalar, (C, 1, 1) or (1, C, 1, 1)."""
    if not isinstance(expr, GenericConst):
        return False
    shape = tuple(int(extent) for extent in expr.value.shape)
    if all(extent == 1 for extent in shape):
        return True
    return shape in ((channels, 1, 1), (1, channels, 1, 1))


def constant_in(constant: relax.Expr, layout: Layout) -> relax.Expr:
    """A scalar or per-channel constant in the shape that broadcasts over a blocked tensor."""
    if not isinstance(constant, GenericConst) or not layout.is_blocked:
        return constant
    values = constant.value.numpy()
    if values.size == 1:
        return relax.const(values.reshape(()), constant.value.dtype)
    blocked = values.reshape(1, values.size // layout.block, 1, 1, layout.block)
    return relax.const(np.ascontiguousarray(blocked), constant.value.dtype)
