"""Convolution to few channels as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import FP32, uniform
from tvm_neocpu.topi.conv2d_to_few import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig
from tvm_neocpu.topi.operator import Implementation

TO_FEW = Implementation(
    name=FewConfig.template,
    config_type=FewConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=(FP32, uniform("float64")),
    takes_prologue=True,
    label=lambda conv, config: "sums over lanes",
)
