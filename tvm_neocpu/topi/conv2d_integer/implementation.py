"""Integer convolution as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import INTEGER_PRODUCTS
from tvm_neocpu.topi.conv2d_integer import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.math.dot_products import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

INTEGER = Implementation(
    name=IntegerConfig.template,
    config_type=IntegerConfig,
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
    types=INTEGER_PRODUCTS,
    packed_types=PACKED_TYPES,
    label=lambda conv, config: "integer",
)
