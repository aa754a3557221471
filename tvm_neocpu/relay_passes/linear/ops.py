"""Linear operations as values: their weights, and how a factor is folded into a weight.

A weight keeps the precision that it was read in. A result computed from it is in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvm_neocpu.relay_passes.ir.constants import Array

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Affine:
    """``y = x * scale + shift`` with vectors along ``axis``, or scalars if it is ``None``."""

    scale: Array
    shift: Array
    axis: int | None

    @property
    def scales(self) -> bool:
        return bool(np.any(self.scale != 1))

    @property
    def shifts(self) -> bool:
        return bool(np.any(self.shift != 0))


@dataclass(frozen=True, eq=False)
class Dense:
    """``y = x @ weight``, weight (in, out), over the last axis of ``x``."""

    weight: Array
    axis: int

    @property
    def out_channels(self) -> int:
        return int(self.weight.shape[1])

    def scale_outputs(self, scale: Array) -> Dense:
        return replace(self, weight=self.weight * scale)

    def scale_inputs(self, scale: Array) -> Dense:
        return replace(self, weight=self.weight * spread(scale, self.weight.shape[0])[:, None])

    def respond(self, shift: Array) -> Array | None:
        """The output, a vector (out,), for an input that is ``shift`` everywhere."""
        weight = self.weight.astype("float64", copy=False)
        response: Array = spread(shift, self.weight.shape[0]) @ weight
        return response


@dataclass(frozen=True, eq=False)
class Conv:
    """2-D convolution; weight (O, I / groups, H, W), padding (top, left, bottom, right).

    ``pixels`` is the height times the width of its output, ``None`` if symbolic.
    """

    weight: Array
    stride: Pair
    padding: tuple[int, int, int, int]
    dilation: Pair
    groups: int
    pixels: int | None
    axis: int = 1

    @property
    def out_channels(self) -> int:
        return int(self.weight.shape[0])

    @property
    def is_pointwise(self) -> bool:
        return self.weight.shape[2:] == (1, 1) and not any(self.padding)

    @property
    def by_group(self) -> Array:
        """The weight as (group, output of the group, input of the group, tap)."""
        outputs, inputs = self.out_channels // self.groups, self.weight.shape[1]
        return self.weight.reshape(self.groups, outputs, inputs, -1)

    def scale_outputs(self, scale: Array) -> Conv:
        return replace(self, weight=self.weight * scale.reshape(-1, 1, 1, 1))

    def scale_inputs(self, scale: Array) -> Conv:
        weight = self.by_group * self._inputs_by_group(scale)[:, None, :, None]
        return replace(self, weight=weight.reshape(self.weight.shape))

    def respond(self, shift: Array) -> Array | None:
        """The output, a vector (O,), for an input that is ``shift`` everywhere.

        ``None`` for a convolution that pads: near the border some taps read zeros instead.
        """
        if any(self.padding):
            return None
        taps = self.by_group.sum(axis=3, dtype="float64")
        response: Array = taps @ self._inputs_by_group(shift)[:, :, None]
        return response.reshape(-1)

    def _inputs_by_group(self, vector: Array) -> Array:
        inputs = self.weight.shape[1]
        return spread(vector, self.groups * inputs).reshape(self.groups, inputs)


@dataclass(frozen=True, eq=False)
class ConvTranspose:
    """Transposed 2-D convolution; weight (I, O / groups, H, W)."""

    weight: Array
    stride: Pair
    padding: tuple[int, int, int, int]
    output_padding: Pair
    dilation: Pair
    groups: int
    axis: int = 1

    @property
    def out_channels(self) -> int:
        return int(self.weight.shape[1]) * self.groups

    def scale_outputs(self, scale: Array) -> ConvTranspose:
        inputs, outputs, *kernel = self.weight.shape
        weight = self.weight.reshape(self.groups, inputs // self.groups, outputs, *kernel)
        factor = spread(scale, self.out_channels).reshape(self.groups, 1, outputs, 1, 1)
        return replace(self, weight=(weight * factor).reshape(self.weight.shape))

    def scale_inputs(self, scale: Array) -> ConvTranspose:
        return replace(self, weight=self.weight * scale.reshape(-1, 1, 1, 1))

    def respond(self, shift: Array) -> Array | None:
        """Always ``None``: the number of taps that reach an output depends on its position."""
        return None


def spread(vector: Array, length: int) -> Array:
    """A scalar or a vector as a vector of that length; a view."""
    return np.broadcast_to(vector, (length,))


Weighted = Dense | Conv | ConvTranspose
LinearOp = Affine | Weighted

__all__ = ["Affine", "Conv", "ConvTranspose", "Dense", "LinearOp", "Pair", "Weighted", "spread"]
