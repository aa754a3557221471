"""A matrix product of pairs of bf16 as an implementation of dense layers."""

from __future__ import annotations

from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.dense_bf16 import cost, geometry, space, template
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig
from tvm_neocpu.topi.math.dot_products import WORD_TYPE
from tvm_neocpu.topi.operator import Implementation

DENSE_BF16 = Implementation(
    name=Bf16DenseConfig.template,
    config_type=Bf16DenseConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=template.pack_weight,
    packed_shape=template.packed_shape,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=(BF16_WEIGHTS,),
    rounds_data=True,
    packed_types={"bfloat16": WORD_TYPE},
    label=lambda dense, config: "bf16 gemm",
)
