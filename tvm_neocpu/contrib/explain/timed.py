"""What a profile adds to the page of a network: times of its nodes, figures, charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Degrees of hue and per cent of lightness, from no time to the slowest node's.
_COLD, _HOT = (205.0, 92.0), (8.0, 55.0)


@dataclass(frozen=True)
class TimedNode:
    """A node's measured time in words, and its share of the slowest node's."""

    text: str
    share: float

    @property
    def colour(self) -> str:
        """From cold to hot, as CSS."""
        hue, light = (
            cold + (hot - cold) * self.share for cold, hot in zip(_COLD, _HOT, strict=True)
        )
        return f"hsl({hue:.0f} 85% {light:.0f}%)"


@dataclass(frozen=True)
class Timed:
    """``nodes`` by the ids of the graph's; ``figures`` are (name, value, note); ``sections`` HTML.

    A node that is missing has no time of its own: another node's function computes it.
    """

    nodes: Mapping[str, TimedNode] = field(default_factory=dict)
    figures: Sequence[tuple[str, str, str]] = ()
    sections: str = ""
