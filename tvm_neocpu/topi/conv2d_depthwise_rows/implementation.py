"""Depthwise convolution of rows in words as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import INTEGER_PRODUCTS
from tvm_neocpu.topi.conv2d_depthwise_rows import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import RowsConfig
from tvm_neocpu.topi.math.dot_products import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

DEPTHWISE_ROWS = Implementation(
    name=RowsConfig.template,
    config_type=RowsConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=INTEGER_PRODUCTS,
    packed_types=PACKED_TYPES,
    label=lambda conv, config: "depthwise, rows in words",
)
