"""Depthwise convolution as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import FP32, INTEGER_PRODUCTS, uniform
from tvm_neocpu.topi.classic_knobs import ClassicKnob
from tvm_neocpu.topi.conv2d_depthwise import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.math.dot_products import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

DEPTHWISE = Implementation(
    name=DepthwiseConfig.template,
    config_type=DepthwiseConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=(FP32, uniform("float64"), *INTEGER_PRODUCTS),
    packed_types=PACKED_TYPES,
    takes_prologue=True,
    classic=(
        ClassicKnob("tile_ic", "ic_bn", 2),
        ClassicKnob("tile_oc", "oc_bn", 2),
        ClassicKnob("tile_ow", "reg_n", 2),
        ClassicKnob("unroll_kw", "unroll_ker"),
    ),
    upgrade=geometry.upgrade,
    label=lambda conv, config: "depthwise",
)
