"""A matrix product in register tiles as an implementation of dense layers."""

from __future__ import annotations

from tvm_neocpu.core.types import FP32, HALF_WEIGHTS, uniform
from tvm_neocpu.topi.dense_gemm import cost, geometry, space, template
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig
from tvm_neocpu.topi.math.half_precision import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

DENSE_GEMM = Implementation(
    name=GemmConfig.template,
    config_type=GemmConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=(FP32, uniform("float64"), *HALF_WEIGHTS),
    packed_types=PACKED_TYPES,
    label=lambda dense, config: "gemm",
)
