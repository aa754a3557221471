"""What a kernel with taps along the depth reads, as two Relax calls: made and recognised here.

A volume is a batch of images. The images of an output lie side by side, their channels one behind
the other, as if they were one image of more channels::

    w = take(x, [z, 0, 1, 0, 1, 2, ...], axis=0)    # (N * OD * T, C, H, W)
    y = reshape(w, (N * OD, T * C, H, W))

``z`` is an image of zeros behind the others, if one is read. In NCHW[x]c both calls move whole
blocks. A template finds the images where they are; for any other reader they are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.exprs import ints, op_name, static_shape
from tvm_neocpu.relay_passes.ir.padding import filled_with
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS
from tvm_neocpu.topi.image.depth import OUTSIDE, Depth

TAKE, RESHAPE = "relax.take", "relax.reshape"
IMAGES = 0
# No image is out of bounds; TVM warns of a gather that does not look.
MODE = "clip"


def side_by_side(
    emit: Callable[[relax.Expr], relax.Var], data: relax.Expr, depth: Depth
) -> relax.Expr:
    """The images that each output reads, side by side; the last call is not emitted."""
    count, *image = static_shape(data)
    images = depth.images()
    if depth.reads_zeros:
        data = emit(relax.op.nn.pad(data, [0, 1, *[0] * 2 * len(image)]))
        images = np.where(images == OUTSIDE, count, images)
    taken = relax.op.take(data, relax.const(images.ravel(), "int64"), IMAGES, MODE)
    if depth.taps == 1:
        return taken
    channels, *pixels = image
    shape = (len(images), depth.taps * channels, *pixels)
    return relax.op.reshape(emit(taken), shape)


def read_side_by_side(
    data: relax.Expr, definition: Callable[[relax.Var], relax.Expr | None]
) -> tuple[relax.Expr, Depth] | None:
    """(the images, which of them are read) of :func:`side_by_side`; ``None`` for anything else."""
    value = definition(data) if isinstance(data, relax.Var) else None
    taken = definition(value.args[0]) if is_stack(value) else value
    if not takes_images(taken) or not isinstance(taken.args[0], relax.Var):
        return None
    source, images = taken.args[0], array_of(taken.args[1])
    count = static_shape(source)[IMAGES]
    images = images.reshape(static_shape(value)[IMAGES], -1)
    padded = definition(source)
    if _appends_zeros(padded):
        source, count = padded.args[0], count - 1
        images = np.where(images == count, OUTSIDE, images)
    depth = Depth.of_images(images, count)
    return None if depth is None else (source, depth)


def takes_images(value: relax.Expr | None) -> bool:
    """Whether a call gathers images by constant numbers, none of which is out of bounds."""
    if op_name(value) != TAKE or value.attrs.axis is None or int(value.attrs.axis) != IMAGES:
        return False
    shape, images = static_shape(value.args[0]), array_of(value.args[1])
    if shape is None or len(shape) not in (4, 5) or images is None or images.ndim != 1:
        return False
    return images.size > 0 and images.min() >= 0 and images.max() < shape[IMAGES]


def is_stack(value: relax.Expr | None) -> bool:
    """Whether a reshape puts images side by side: (N * T, C, ...) -> (N, T * C, ...)."""
    if op_name(value) != RESHAPE:
        return False
    before, after = static_shape(value.args[0]), static_shape(value)
    if before is None or after is None or len(before) != len(after) or len(after) not in (4, 5):
        return False
    same = before[2:] == after[2:] and prod(before) == prod(after)
    grows = 0 < before[CHANNELS] < after[CHANNELS]
    return same and grows and after[CHANNELS] % before[CHANNELS] == 0


def _appends_zeros(value: relax.Expr | None) -> bool:
    """Whether one image of zeros is put behind the others."""
    if filled_with(value) != 0:
        return False
    return ints(value.attrs.pad_width) == (0, 1, *[0] * 2 * (len(static_shape(value)) - 1))
