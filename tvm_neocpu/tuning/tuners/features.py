"""Numbers that describe a config and a workload to a learner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields

from tvm_neocpu.core.network.config import Config, knobs
from tvm_neocpu.core.network.workload import Workload


def feature_names(space: Iterable[Config]) -> tuple[str, ...]:
    """The columns of :func:`feature_vector`: one for each template, one for each knob."""
    kinds = {type(config): config for config in space}
    templates = sorted(f"is:{config.template}" for config in kinds.values())
    names = sorted({name for config in kinds.values() for name in knobs(config)})
    return (*templates, *names)


def feature_vector(config: Config, names: Sequence[str]) -> list[float]:
    """The config's knobs as log2(1 + value), since tile sizes matter by their ratios.

    A knob that the config's template lacks is NaN; ``is:<template>`` is 1 or 0.
    """
    values = {name: math.log2(1 + int(value)) for name, value in knobs(config).items()}
    values[f"is:{config.template}"] = 1.0
    return [values.get(name, 0.0 if name.startswith("is:") else math.nan) for name in names]


def workload_names(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """The columns of :func:`workload_vector`: one for each operator, one for each whole number."""
    kinds = {type(workload).__name__: workload for workload in workloads}
    operators = sorted(f"is:{kind}" for kind in kinds)
    names = sorted({name for workload in kinds.values() for name in _numbers(workload)})
    return (*operators, *names)


def workload_vector(workload: Workload, names: Sequence[str]) -> list[float]:
    """The workload's sizes as log2(1 + value); NaN for one that its operator lacks."""
    values = {name: math.log2(1 + max(0, value)) for name, value in _numbers(workload).items()}
    values[f"is:{type(workload).__name__}"] = 1.0
    return [values.get(name, 0.0 if name.startswith("is:") else math.nan) for name in names]


def _numbers(workload: Workload) -> dict[str, float]:
    """Its fields that are whole numbers, pairs of them as two, and its work and bytes."""
    found: dict[str, float] = {
        "flops": workload.flops,
        "weight_bytes": workload.weight_bytes,
        "out_bytes": workload.out_bytes,
    }
    for field in fields(workload):  # type: ignore[arg-type]
        value = getattr(workload, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        for position, part in enumerate(parts):
            if isinstance(part, int):
                found[f"{field.name}{position}" if isinstance(value, tuple) else field.name] = part
    return found
