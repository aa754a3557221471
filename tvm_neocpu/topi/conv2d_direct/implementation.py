"""Direct convolution as an implementation of conv2d."""

from __future__ import annotations

from tvm_neocpu.core.types import FP32, HALF_WEIGHTS, uniform
from tvm_neocpu.topi.classic_knobs import ClassicKnob
from tvm_neocpu.topi.conv2d_direct import cost, geometry, space, template
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.math.half_precision import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

DIRECT = Implementation(
    name=ConvConfig.template,
    config_type=ConvConfig,
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
    types=(FP32, uniform("float64"), *HALF_WEIGHTS),
    packed_types=PACKED_TYPES,
    takes_prologue=True,
    copies_apart=lambda conv, config: geometry.DirectGeometry(conv, config).copies_apart,
    # AutoTVM's 1x1 template tiled rows where its others unroll the kernel.
    classic=(
        ClassicKnob("tile_ic", "ic_bn", 2),
        ClassicKnob("tile_oc", "oc_bn", 2),
        ClassicKnob("tile_ow", "reg_n", 2),
        ClassicKnob("unroll_kw", "unroll_ker", written=lambda conv: conv.kernel != (1, 1)),
        ClassicKnob("tile_oh", "reg_m", written=lambda conv: conv.kernel == (1, 1)),
    ),
    label=lambda conv, config: "direct",
)
