"""How a template computes a workload: frozen, printable, replayable decisions.

Each implementation brings its own config type, in the ``geometry.py`` of its room.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class Config(Protocol):
    """A frozen dataclass of knobs: whole numbers and booleans.

    ``template`` is the name of the implementation that it belongs to, in logs too. A config of an
    operator over feature maps has ``ic_bn`` and ``oc_bn``, the channels in a block of its input and
    of its output (0: plain NCHW); any other reads and writes tensors as the graph has them.
    """

    template: ClassVar[str]

    def __hash__(self) -> int: ...


def knobs(config: Any) -> dict[str, int | bool]:
    """The config as an ordered name -> value mapping."""
    return {field.name: getattr(config, field.name) for field in fields(config)}
