"""Where the file with this machine's measured figures is; found without the compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "TVM_NEOCPU_CALIBRATION"
OFF = "off"


def chosen_path(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file that builds read and the calibrate command writes; ``None`` if switched off."""
    text = environment.get(VARIABLE, "").strip()
    if text.lower() == OFF:
        return None
    try:
        if text:
            return Path(text).expanduser()
        folder = environment.get("XDG_CACHE_HOME", "")
        # The XDG specification says that a relative path is invalid and must be ignored.
        cached = Path(folder) if os.path.isabs(folder) else Path.home() / ".cache"
    except RuntimeError:  # no home directory
        return None
    return cached / "tvm_neocpu" / "calibration.json"
