"""The sizes of this machine's caches."""

from __future__ import annotations

from pathlib import Path

# Linux's letters.
_UNITS = {"K": 1 << 10, "M": 1 << 20}


def cache_sizes(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[int, int]:
    """Data-cache bytes by level as Linux reports them; empty where it does not."""
    sizes: dict[int, int] = {}
    for index in sorted(root.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind == "Instruction" or not text:
            continue
        unit = _UNITS.get(text[-1])
        sizes[level] = int(text[:-1]) * unit if unit else int(text)
    return sizes
