"""im2col and a matrix product as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import FP32, uniform
from tvm_neocpu.topi.conv2d_im2col import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.operator import Implementation

IM2COL = Implementation(
    name=Im2colConfig.template,
    config_type=Im2colConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    pricing=cost.pricing,
    misfit=geometry.misfit,
    types=(FP32, uniform("float64")),
    takes_prologue=True,
    label=lambda conv, config: "im2col",
)
