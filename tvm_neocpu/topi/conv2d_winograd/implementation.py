"""Winograd convolution as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import FP16_WEIGHTS, FP32
from tvm_neocpu.topi.conv2d_winograd import (
    cost,
    geometry,
    misfit,
    packing,
    rounding,
    space,
    template,
)
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.operator import Implementation

WINOGRAD = Implementation(
    name=WinogradConfig.template,
    config_type=WinogradConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=packing.pack_weight,
    packed_shape=packing.packed_shape,
    cost=cost.predict_seconds,
    pricing=cost.pricing,
    misfit=misfit.misfit,
    forbids=space.forbids,
    # In bf16 F(4x4, 3x3) would lose too much; smaller tiles have a template of their own.
    types=(FP32, FP16_WEIGHTS),
    noise_growth=rounding.noise_growth,
    weight_scales=rounding.weight_scales,
    settings=space.tile_limit,
    takes_prologue=True,
    label=geometry.label,
)
