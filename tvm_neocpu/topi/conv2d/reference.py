"""Convolution by NumPy, one tap of the kernel after the other: the oracle of the templates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_neocpu.core.types import exact_type
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

Array = npt.NDArray[Any]


def convolved(conv: ConvWorkload, data: Array, weight: Array) -> Array:
    """(N, C, H, W) and (K, C/groups, R, S) -> (N, K, OH, OW), summed exactly or in float64."""
    top, left, bottom, right = conv.padding
    wide = exact_type(conv.types)
    borders = ((0, 0), (0, 0), (top, bottom), (left, right))
    padded = np.pad(data.astype(wide), borders, constant_values=conv.pad_value)
    grouped = padded.reshape(conv.batch, conv.groups, -1, *padded.shape[2:])
    filters = weight.astype(wide).reshape(conv.groups, -1, *weight.shape[1:])
    (stride_y, stride_x), (step_y, step_x) = conv.stride, conv.dilation
    total = np.zeros((conv.batch, *filters.shape[:2], conv.out_height, conv.out_width), wide)
    for kh, kw in np.ndindex(*conv.kernel):
        pixels = grouped[..., kh * step_y :: stride_y, kw * step_x :: stride_x]
        pixels = pixels[..., : conv.out_height, : conv.out_width]
        total += np.einsum("ngchw,gkc->ngkhw", pixels, filters[..., kh, kw])
    return total.reshape(conv.out_shape).astype(conv.types.output)
