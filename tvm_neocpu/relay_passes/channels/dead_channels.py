"""Tensors with dead channels, which are zeros or whatever became of them, and who reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.layouts.depth_windows import is_stack
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS
from tvm_neocpu.relay_passes.layouts.table import flow_of
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload


@dataclass(frozen=True)
class Widened:
    """A tensor with dead channels; ``places`` are those of the old channels, in order."""

    expr: relax.Expr
    places: tuple[int, ...]

    @property
    def width(self) -> int:
        return channels_of(self.expr)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """(begin, end) of channels that lie side by side."""
        return runs_of(self.places)

    def spread(self, array: np.ndarray, axis: int, fill: float) -> np.ndarray:
        """The array with its entries along an axis at the channels' places, ``fill`` elsewhere."""
        moved = np.moveaxis(array, axis, 0)
        wide = np.full((self.width, *moved.shape[1:]), fill, array.dtype)
        wide[list(self.places)] = moved
        return np.ascontiguousarray(np.moveaxis(wide, 0, axis))

    def runs_in_places_of(self, like: Widened) -> list[tuple[int, int]]:
        """The runs of channels, dead ones too, in the order that puts each where ``like`` has it.

        Both are of one width, and of as many old channels.
        """
        own, alive = iter(self.places), set(like.places)
        dead = iter(sorted({*range(self.width)} - {*self.places}))
        return runs_of([next(own if at in alive else dead) for at in range(self.width)])


def runs_of(places: Sequence[int]) -> list[tuple[int, int]]:
    """(begin, end) of places that follow each other."""
    found: list[tuple[int, int]] = []
    for place in places:
        begins = not found or found[-1][1] != place
        found.append((place, place + 1) if begins else (found.pop()[0], place + 1))
    return found


@dataclass(frozen=True)
class Readers:
    """What reads the tensors of a region.

    ``carried``: the variables whose dead channels reach a convolution, or an operation that makes
    them few; a pool does, behind it a slice copies less. ``by_lanes``: of these, the ones that
    reach a depthwise convolution first. ``products``: of dense convolutions, as many as a channel
    of a pixel goes into.
    """

    carried: set[relax.Var] = field(default_factory=set)
    by_lanes: set[relax.Var] = field(default_factory=set)
    products: Counter[relax.Var] = field(default_factory=Counter)


def readers_of(bindings: Sequence[relax.VarBinding]) -> Readers:
    """The readers of all variables of a region."""
    found = Readers()
    for binding in reversed(bindings):
        var, value = binding.var, binding.value
        conv = None if isinstance(value, relax.Var) else conv_workload(value)
        if conv is not None:
            data = value.args[0]
            found.carried.add(data)
            found.by_lanes.update({data} if conv.is_depthwise else ())
            taps = math.prod(conv.kernel) * conv.out_channels // math.prod(conv.stride)
            found.products[data] += taps if conv.groups == 1 else 0
            continue
        operands = {value} if isinstance(value, relax.Var) else set(flow_of(value).operands)
        makes_few = not is_stack(value) and _pixels(var) < max(map(_pixels, operands), default=0)
        found.carried.update(operands if makes_few or var in found.carried else ())
        found.by_lanes.update(operands if var in found.by_lanes else ())
        for operand in operands:
            found.products[operand] += found.products[var]
    return found


def _pixels(expr: relax.Expr) -> int:
    """Elements of a channel, of the whole batch."""
    shape = static_shape(expr)
    return math.prod(shape) // max(1, channels_of(expr)) if shape is not None else 0


def channels_of(expr: relax.Expr) -> int:
    """The channels of a feature map; 0 where they are not known."""
    shape = static_shape(expr)
    return shape[CHANNELS] if shape is not None and len(shape) > CHANNELS else 0
