"""Winograd convolution of bf16 products as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.conv2d_winograd.geometry import label
from tvm_neocpu.topi.conv2d_winograd.space import tile_limit
from tvm_neocpu.topi.conv2d_winograd_bf16 import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig
from tvm_neocpu.topi.math.dot_products import WORD_TYPE
from tvm_neocpu.topi.operator import Implementation

BF16_WINOGRAD = Implementation(
    name=Bf16WinogradConfig.template,
    config_type=Bf16WinogradConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    pricing=cost.pricing,
    misfit=geometry.misfit,
    forbids=space.forbids,
    types=(BF16_WEIGHTS,),
    rounds_data=True,
    noise_growth=space.noise_growth,
    packed_types={"bfloat16": WORD_TYPE},
    settings=tile_limit,
    label=lambda conv, config: f"bf16 {label(conv, config)}",
)
