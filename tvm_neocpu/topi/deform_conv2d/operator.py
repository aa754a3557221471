"""What a deformable convolution is, and its one implementation."""

from __future__ import annotations

from tvm_neocpu.core.types import FP32, uniform
from tvm_neocpu.topi.deform_conv2d import cost, geometry, space, template
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.deform_conv2d.log import decode
from tvm_neocpu.topi.deform_conv2d.reference import deformed
from tvm_neocpu.topi.deform_conv2d.text import EXAMPLE, parse
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.topi.operator import Implementation, Operator

DEFORM_CONV2D = Operator(
    name="deform_conv2d",
    workload_type=DeformConvWorkload,
    decode=decode,
    reference=deformed,
    parse=parse,
    example=EXAMPLE,
)

SAMPLED_COLUMNS = Implementation(
    name=DeformConfig.template,
    config_type=DeformConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=(FP32, uniform("float64")),
    label=lambda deform, config: "deformable",
)
