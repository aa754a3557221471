"""Integer convolution of plain data in words of rows as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d_integer_rows import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsConfig
from tvm_neocpu.topi.math.dot_products import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

INTEGER_ROWS = Implementation(
    name=ImageRowsConfig.template,
    config_type=ImageRowsConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    pricing=cost.pricing,
    misfit=geometry.misfit,
    types=(U8S8,),
    packed_types=PACKED_TYPES,
    label=lambda conv, config: "integer, rows in words",
)
