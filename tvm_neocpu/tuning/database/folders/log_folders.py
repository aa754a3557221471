"""The folders of logs, found without reading a log: nothing here imports TVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tvm_neocpu.tuning.database.folders.data_folder import data_folder

LOGS_VARIABLE = "TVM_NEOCPU_LOGS"

PACKAGE = Path(__file__).resolve().parents[2]


def shipped_folders() -> list[Path]:
    """What came with the package: in the wheel, in a checkout. A folder for each CPU."""
    return [PACKAGE / "_tuning_logs", PACKAGE.parent / "tuning_logs"]


def named_folders() -> list[Path]:
    """What ``TVM_NEOCPU_LOGS`` names, a list as PATH is. A folder for each CPU."""
    texts = os.environ.get(LOGS_VARIABLE, "").split(os.pathsep)
    return [Path(text) for text in texts if text]


def user_folder() -> Path | None:
    """This user's logs, one file for each CPU; ``None`` without a database."""
    folder = data_folder()
    return None if folder is None else folder / "logs"


def all_logs() -> Iterator[Path]:
    """Every log that some build reads without being told: shipped, named, the user's."""
    for folder in (*shipped_folders(), *named_folders()):
        yield from sorted(folder.glob("*/*.log"))
    own = user_folder()
    if own is not None:
        yield from sorted(own.glob("*.log"))
