"""Which colour stands for which layout and which algorithm; legible on a light and a dark page."""

from __future__ import annotations

from collections.abc import Iterable

GREY = "#8b949e"
# Hues apart for the colour-blind first (after Okabe and Ito, 2008).
PALETTE = (
    "#0a84d6",
    "#e69f00",
    "#009e73",
    "#cc5fa5",
    "#d55e00",
    "#56b4e9",
    "#7d6bd8",
    "#b8a800",
    "#5d8a3a",
    "#a0522d",
)
# Turns of the hue circle between further colours: golden sections never meet again.
_GOLDEN_ANGLE = 137.508


def assign(names: Iterable[str], neutral: Iterable[str] = ()) -> dict[str, str]:
    """A colour for each name in the order given; neutral ones are grey."""
    plain = set(neutral)
    colours: dict[str, str] = {}
    taken = 0
    for name in dict.fromkeys(names):
        if name in plain:
            colours[name] = GREY
            continue
        colours[name] = _colour(taken)
        taken += 1
    return colours


def _colour(number: int) -> str:
    if number < len(PALETTE):
        return PALETTE[number]
    return f"hsl({number * _GOLDEN_ANGLE % 360:.0f} 60% 50%)"
