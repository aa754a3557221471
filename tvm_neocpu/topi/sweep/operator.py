"""What a sweep is, for logs and prices. The implementation's guard accepts none: TVM makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_neocpu.core.errors import ConfigError, LineError
from tvm_neocpu.core.network.conv_graph import Shape4, SweepKind
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.sweep import cost, space, template
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.task_args import read_count, read_tensor

KINDS = tuple(kind.value for kind in SweepKind)


def _decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> SweepWorkload:
    if len(args) != 5 or args[0] not in KINDS or not isinstance(args[1], list) or not args[1]:
        raise LineError("it is not a sweep over feature maps")
    kind, tensors, result, taps, layout = args
    read = [_feature_map(tensor) for tensor in tensors]
    output, dtype = _feature_map(result)
    try:
        stored = Layout.parse(str(layout))
    except ValueError as error:
        raise LineError(str(error)) from None
    shapes = tuple(shape for shape, _ in read)
    if any(other != dtype for _, other in read):
        raise LineError("a sweep of several element types")
    return SweepWorkload(kind, shapes, output, read_count(taps), stored.block, uniform(dtype))


def _feature_map(arg: Any) -> tuple[Shape4, str]:
    shape, dtype = read_tensor(arg)
    if len(shape) != 4:
        raise LineError("a sweep over something that is no feature map")
    return (shape[0], shape[1], shape[2], shape[3]), dtype


def _reference(sweep: SweepWorkload, *data: np.ndarray) -> np.ndarray:
    """Refused: a sweep says how much is read and written, not what is computed."""
    raise ConfigError(f"{sweep} says what it costs, not what it computes")


SWEEP = Operator(name="sweep", workload_type=SweepWorkload, decode=_decode, reference=_reference)

BY_TVM = Implementation(
    name=SweepConfig.template,
    config_type=SweepConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=None,
    packed_shape=None,
    cost=cost.predict_seconds,
)
