"""Loops of generated assembly."""

from __future__ import annotations

import re


def innermost_loops(asm: str) -> list[str]:
    """The text from each label to the first jump back to it, if no other label is inside."""
    return [
        body[: jump.end()]
        for label, body in re.findall(r"^(\.LBB\w+):((?:(?!^\.LBB).*\n)*)", asm, re.MULTILINE)
        if (jump := re.search(rf"\bj\w+\s+{re.escape(label)}\b", body))
    ]
