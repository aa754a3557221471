"""AutoTVM's names for knobs of ours, so that its tools and our logs understand each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Entity = list[Any]


@dataclass(frozen=True)
class ClassicKnob:
    """AutoTVM's ``name`` for our ``field``: ``parts`` of a split, or 0 for a plain option.

    ``written(workload)`` says whether a line of this workload has it; reading accepts it always.
    """

    name: str
    field: str
    parts: int = 0
    written: Callable[[Any], bool] = lambda workload: True

    def encode(self, value: int | bool) -> Entity:
        """An entity: ``["tile_oc", "sp", [-1, 16]]`` or ``["unroll_kw", "ot", True]``."""
        if not self.parts:
            return [self.name, "ot", value]
        # Only the innermost part matters; AutoTVM writes -1 for what follows from the extent.
        innermost = value if self.can_tell(value) else 1
        return [self.name, "sp", [-1, *[1] * (self.parts - 2), innermost]]

    def can_tell(self, value: int | bool) -> bool:
        """Whether the entity holds the value. A split by 0 would break old tools.

        Plain NCHW (a block of 0) is written as a split by 1, which stores the same bytes.
        """
        return not self.parts or value >= 1
