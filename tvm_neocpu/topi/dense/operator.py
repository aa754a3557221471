"""What a dense layer is, and its one implementation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_neocpu.core.errors import LineError, WorkloadTextError
from tvm_neocpu.core.types import FP32, HALF_WEIGHTS, Types, exact_type, uniform
from tvm_neocpu.topi.classic_knobs import ClassicKnob
from tvm_neocpu.topi.dense import cost, geometry, space, template
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.math.half_precision import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.task_args import read_data_and_weight

_TEXT = re.compile(r"dense (\d+)x(\d+)->(\d+)(?: (?P<types>.+))?")


def _decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> DenseWorkload:
    shape, weight, types = read_data_and_weight(args, rank=2)
    if shape[1] != weight[1]:
        raise LineError(f"data {shape} does not fit weight {weight}")
    return DenseWorkload(shape[0], shape[1], weight[0], types)


def _parse(text: str) -> DenseWorkload | None:
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        return None
    batch, in_features, out_features = map(int, found.groups()[:3])
    if min(batch, in_features, out_features) < 1:
        raise WorkloadTextError(f"{text!r} has a size of 0")
    try:
        types = FP32 if found["types"] is None else Types.parse(found["types"])
    except ValueError as error:
        raise WorkloadTextError(f"{text!r}: {error}") from None
    return DenseWorkload(batch, in_features, out_features, types)


def _reference(dense: DenseWorkload, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(B, K) and (K, O) -> (B, O), summed exactly or in double precision."""
    wide = exact_type(dense.types)
    product: np.ndarray = data.astype(wide) @ weight.astype(wide)
    return product.astype(dense.types.output)


DENSE = Operator(
    name="dense",
    workload_type=DenseWorkload,
    decode=_decode,
    reference=_reference,
    parse=_parse,
    example="dense 1x512->1000",
)

DENSE_PACK = Implementation(
    name=DenseConfig.template,
    config_type=DenseConfig,
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
    classic=(
        ClassicKnob("tile_y", "reg_n", 3),
        ClassicKnob("tile_x", "oc_bn", 3),
        ClassicKnob("tile_k", "unroll_k", 2),
    ),
    label=lambda dense, config: "dense",
)
