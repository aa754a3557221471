"""A matrix product of words as an implementation of dense layers."""

from __future__ import annotations

from tvm_neocpu.core.types import INTEGER_PRODUCTS
from tvm_neocpu.topi.dense_integer import cost, geometry, space, template
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig
from tvm_neocpu.topi.math.dot_products import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation

DENSE_INTEGER = Implementation(
    name=IntegerDenseConfig.template,
    config_type=IntegerDenseConfig,
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
    label=lambda dense, config: "integer gemm",
)
