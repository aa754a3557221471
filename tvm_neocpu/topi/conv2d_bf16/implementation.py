"""Direct convolution in bf16 as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import BF16_MAPS, BF16_WEIGHTS
from tvm_neocpu.topi.conv2d_bf16 import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.math.dot_products import WORD_TYPE
from tvm_neocpu.topi.operator import Implementation

BF16_DIRECT = Implementation(
    name=Bf16Config.template,
    config_type=Bf16Config,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    pricing=cost.pricing,
    blocks=space.blocks,
    part_of_space=space.part_of_space,
    misfit=geometry.misfit,
    types=(BF16_WEIGHTS, BF16_MAPS),
    rounds_data=True,
    takes_prologue=True,
    packed_types={"bfloat16": WORD_TYPE},
    label=lambda conv, config: "bf16",
)
