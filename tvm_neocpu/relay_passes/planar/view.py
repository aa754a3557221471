"""Tensors of one or three spatial axes seen as feature maps (N, C, H, W).

sequence (N, C, W)          <->  (N, C, 1, W)         the same memory
volume   (N, C, D, H, W)    <->  (N * D, C, H, W)     an image for each depth
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope

SEQUENCE, VOLUME = 3, 5


@dataclass
class Views:
    """The feature maps that stand for tensors of a region, by the variables of these tensors.

    ``rounded``: whether layers are to multiply bf16.
    """

    scope: Scope
    rounded: bool = False
    maps: dict[relax.Var, relax.Expr] = field(default_factory=dict)

    def has(self, tensor: relax.Expr) -> bool:
        return self.scope.resolve(tensor) in self.maps

    def map_of(self, tensor: relax.Expr) -> relax.Expr | None:
        """The tensor as a feature map, made if there is none; ``None`` where it cannot be one."""
        tensor = self.scope.resolve(tensor)
        if tensor not in self.maps:
            shape = static_shape(tensor)
            if shape is None or len(shape) not in (SEQUENCE, VOLUME):
                return None
            self.maps[tensor] = self._made(tensor, shape)
        return self.maps[tensor]

    def _made(self, tensor: relax.Expr, shape: tuple[int, ...]) -> relax.Expr:
        if len(shape) == VOLUME:
            tensor = self.scope.emit(relax.op.permute_dims(tensor, [0, 2, 1, 3, 4]))
        return self.scope.emit(relax.op.reshape(tensor, map_shape(shape)))

    def tensor_of(self, feature_map: relax.Expr, shape: tuple[int, ...]) -> relax.Expr:
        """A feature map as the tensor of that shape which it stands for."""
        if len(shape) != VOLUME:
            return relax.op.reshape(feature_map, shape)
        batch, channels, depth, height, width = shape
        images = (batch, depth, channels, height, width)
        stacked = self.scope.emit(relax.op.reshape(feature_map, images))
        return relax.op.permute_dims(stacked, [0, 2, 1, 3, 4])


def map_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the feature map that stands for a tensor of ``shape``."""
    if len(shape) == SEQUENCE:
        return (*shape[:2], 1, shape[2])
    batch, channels, depth, height, width = shape
    return (batch * depth, channels, height, width)


def map_axis(axis: int, rank: int) -> int | None:
    """The axis of the feature map for an axis of the tensor; ``None`` for batch and depth."""
    axes: dict[int, dict[int, int]] = {SEQUENCE: {1: 1, 2: 3}, VOLUME: {1: 1, 3: 2, 4: 3}}
    return axes[rank].get(axis % rank)


def constant_map(constant: GenericConst, rank: int) -> relax.Expr | None:
    """A constant that broadcasts over a tensor of ``rank`` as one that broadcasts over its map.

    (C, 1) -> (C, 1, 1) for a sequence, (C, 1, 1, 1) -> (C, 1, 1) for a volume; ``None`` for one
    that varies along the batch and the depth of a volume.
    """
    array = array_of(constant)
    if array is None or array.ndim > rank:
        return None
    unchanged = 1 if rank == SEQUENCE else 2
    if array.ndim <= unchanged:
        return constant
    if rank == SEQUENCE:
        return constant_of(np.expand_dims(array, -2), dtype_of(constant))
    if array.shape[-3] != 1 or (array.ndim == VOLUME and array.shape[0] != 1):
        return None
    return constant_of(np.squeeze(array, -3), dtype_of(constant))
