"""What a batched matrix product is, and its one implementation."""

from __future__ import annotations

import numpy as np

from tvm_neocpu.core.types import FP32, uniform
from tvm_neocpu.topi.batch_matmul import cost, geometry, log, space, template
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.operator import Implementation, Operator


def _reference(product: MatmulWorkload, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Summed in double precision."""
    first = left.astype("float64").transpose(product.left_axes)
    second = right.astype("float64").transpose(product.right_axes)
    result: np.ndarray = (first @ second).astype(product.types.output)
    return result


BATCH_MATMUL = Operator(
    name="batch_matmul",
    workload_type=MatmulWorkload,
    decode=log.decode,
    reference=_reference,
    parse=log.parse,
    example="matmul 12x197x64 * 12x64x197",
)

BATCH_MATMUL_PACK = Implementation(
    name=MatmulConfig.template,
    config_type=MatmulConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=None,
    packed_shape=None,
    cost=cost.predict_seconds,
    misfit=geometry.misfit,
    types=(FP32, uniform("float64")),
    label=lambda product, config: "matmul",
)
