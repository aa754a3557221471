"""What a run checks, as a name that an error of TVM's machine carries.

A match_cast's error prints the shape that was expected: ``ErrorContext(match_cast, ty=R.Shape([4,
neocpu_check_...]))``. One more extent, of any value, has a name that says what is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_NAME = re.compile(r"neocpu_check_([0-9a-f]+)")
_PLACE = re.compile(r"shape\[(\d+)\]")
_EQUATION = re.compile(r"[^<>=]+ == -?\d+")
# What C++ says; a negative extent is a large number to it.
_NO_MEMORY = "std::bad_alloc"
_VALUES = re.compile(r"\((-?\d+) vs\. (-?\d+)\)")


def check_name(where: str, needs: Sequence[str]) -> str:
    """The name of an extent behind those that stand for ``needs``, texts such as ``"n == 4"``."""
    return f"neocpu_check_{json.dumps([where, *needs]).encode().hex()}"


def failed_check(error: str) -> str | None:
    """The line for an error's text: where, what is needed, what was found; ``None`` for others."""
    if _NO_MEMORY in error:
        return "no memory for tensors of the extents that this run computes"
    name, place = _NAME.search(error), _PLACE.search(error)
    if name is None or place is None:
        return None
    where, *needs = json.loads(bytes.fromhex(name[1]))
    need, values = needs[int(place[1])], _VALUES.search(error)
    line = f"{where}: the extents of this run do not fit: it needs {need}"
    is_told = values is not None and _EQUATION.fullmatch(need) is not None
    return f"{line}, and found {values[1]}" if values and is_told else line
