"""The note that a template leaves on its main block, so that a fused function can be scheduled.

``FuseTIR`` puts a convolution and its epilogue into one function; what survives is the block's
annotations. They carry the template's name, the workload and the config as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import Types

ANCHOR_KEY = "neocpu.anchor"


@dataclass(frozen=True)
class Anchor:
    """A template's main block in a fused function, and what the template was asked to compute."""

    block: SBlockRV
    template: str
    workload: Any
    config: Any


def anchor_attrs(workload: Workload, config: Config) -> dict[str, str]:
    """Block attributes for ``te.compute(..., attrs=...)``."""
    note = {
        "template": config.template,
        "workload": asdict(workload),  # type: ignore[call-overload]  # workloads are dataclasses
        "config": asdict(config),  # type: ignore[call-overload]
    }
    return {ANCHOR_KEY: json.dumps(note)}


# A template's name -> (workload type, config type).
TypesOf = Callable[[str], tuple[type[Any], type[Any]]]


def find_anchor(sch: Schedule, types_of: TypesOf) -> Anchor | None:
    """The function's anchor; ``None`` where no template made a block of it."""
    for block in child_blocks(sch):
        text = sch.get(block).annotations.get(ANCHOR_KEY)
        if text is not None:
            return _read(block, str(text), types_of)
    return None


def forget_anchor(sch: Schedule) -> None:
    """Remove the note once it has served; it would only clutter what is built and printed.

    A block that was split off the main one (the zeroing of its reduction) took a copy along.
    """
    for block in child_blocks(sch):
        if ANCHOR_KEY in sch.get(block).annotations:
            sch.unannotate(block, ANCHOR_KEY)


def child_blocks(sch: Schedule) -> list[SBlockRV]:
    """Every block below the root, in program order."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def _read(block: SBlockRV, text: str, types_of: TypesOf) -> Anchor:
    note: dict[str, Any] = json.loads(text)
    workload_type, config_type = types_of(note["template"])
    workload = workload_type(**_fields_from(note["workload"]))
    return Anchor(block, note["template"], workload, config_type(**_fields_from(note["config"])))


def _fields_from(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _frozen(value) for name, value in values.items()}


def _frozen(value: Any) -> Any:
    """What JSON made of a field: lists were tuples, the one dictionary was the element types."""
    if isinstance(value, dict) and value.keys() == {field.name for field in fields(Types)}:
        return Types(**value)
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
