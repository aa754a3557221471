"""The note a template leaves on its main block, so that a fused function can be scheduled.

``FuseTIR`` melts a convolution and its epilogue into one function; what survives is the block's
annotations. They carry the template's name, the workload and the config as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.config import CONFIG_TYPES, Config
from tvm_neocpu.core.workload import WORKLOAD_TYPES, Workload

ANCHOR_KEY = "neocpu.anchor"


@dataclass(frozen=True)
class Anchor:
    """A template's main block in a fused function, and what the template was asked to compute."""

    block: SBlockRV
    template: str
    workload: Workload
    config: Config


def anchor_attrs(workload: Workload, config: Config) -> dict[str, str]:
    """Block attributes for ``te.compute(..., attrs=...)``."""
    note = {
        "template": config.template,
        "workload": [type(workload).__name__, asdict(workload)],
        "config": asdict(config),
    }
    return {ANCHOR_KEY: json.dumps(note)}


def find_anchor(sch: Schedule) -> Anchor | None:
    """The function's anchor; ``None`` where no template had a hand in it."""
    for block in child_blocks(sch):
        text = sch.get(block).annotations.get(ANCHOR_KEY)
        if text is not None:
            return _read(block, str(text))
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


def _read(block: SBlockRV, text: str) -> Anchor:
    note: dict[str, Any] = json.loads(text)
    kind, values = note["workload"]
    workload = WORKLOAD_TYPES[kind](**{name: _frozen(value) for name, value in values.items()})
    config = CONFIG_TYPES[note["template"]](**note["config"])
    return Anchor(block, note["template"], workload, config)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
