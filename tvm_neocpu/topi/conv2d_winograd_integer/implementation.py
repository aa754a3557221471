"""Integer Winograd convolution as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d_winograd.geometry import label
from tvm_neocpu.topi.conv2d_winograd.space import tile_limit
from tvm_neocpu.topi.conv2d_winograd_integer import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import IntegerWinogradConfig
from tvm_neocpu.topi.math.dot_products import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

INTEGER_WINOGRAD = Implementation(
    name=IntegerWinogradConfig.template,
    config_type=IntegerWinogradConfig,
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
    types=(U8S8,),
    packed_types=PACKED_TYPES,
    settings=tile_limit,
    label=lambda conv, config: f"integer {label(conv, config)}",
)
