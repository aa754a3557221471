"""The folder of what this user has measured: the tuning database."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

DATA_VARIABLE = "TVM_NEOCPU_DATA"
OFF = "off"


def data_folder() -> Path | None:
    """The folder of this user's database; ``None`` if it is switched off or there is no home."""
    text = os.environ.get(DATA_VARIABLE, "").strip()
    if text.lower() == OFF:
        return None
    try:
        folder = Path(text).expanduser() if text else user_data_path("tvm_neocpu")
    except RuntimeError:  # no home directory
        return None
    # A folder of the user's own is the same wherever a build runs.
    return folder if text or folder.is_absolute() else None
