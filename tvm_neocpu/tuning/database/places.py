"""Where logs lie: shipped ones, this user's database, folders that the environment names.

    tuning_logs/<cpu>/*.log                     shipped: in the wheel or the checkout
    ~/.local/share/tvm_neocpu/logs/<cpu>.log    this user's; TVM_NEOCPU_DATA names another folder
    $TVM_NEOCPU_LOGS/<cpu>/*.log                 named by the environment, a list as PATH is

The user's database is one append-only log for each CPU, which `tune` writes and every build of this
user reads. TVM_NEOCPU_DATA=off switches it off.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.tuning.database.folders import log_folders
from tvm_neocpu.tuning.database.folders.data_folder import DATA_VARIABLE, data_folder
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning


def find_user_log(cpu_name: str) -> Path | None:
    """The user's log for a CPU's name, whether it exists or not; ``None`` without a database."""
    folder = log_folders.user_folder()
    if folder is None or not is_file_name(cpu_name):
        return None
    return folder / f"{cpu_name}.log"


def user_log(cpu_name: str) -> Path:
    """The user's log for a CPU's name, to write to: its folders are made, the file exists.

    Raises LogError, with one line, where there is no database or it cannot be written.
    """
    path = find_user_log(cpu_name)
    if path is None:
        reason = "is off" if data_folder() is None else f"has no log for a CPU {cpu_name!r}"
        raise LogError(f"the database ({DATA_VARIABLE}) {reason}: name a log with --log")
    TuningLog(path).check_writable()
    return path


def shipped_logs(cpu_name: str) -> tuple[Path, ...]:
    """The logs for a CPU's name that came with the package: those in the wheel, in a checkout."""
    return _logs_in(log_folders.shipped_folders(), cpu_name)


def named_logs(cpu_name: str) -> tuple[Path, ...]:
    """Those in the folders of ``TVM_NEOCPU_LOGS``; warns of a folder that is not there."""
    folders = log_folders.named_folders()
    for folder in folders:
        if not folder.is_dir():
            text = f"{log_folders.LOGS_VARIABLE} names {folder}, which is no folder: ignored"
            warnings.warn(text, TuningLogWarning, stacklevel=3)
    return _logs_in(folders, cpu_name)


def is_file_name(cpu_name: str) -> bool:
    """Whether a CPU's name can be a file's: it is no path."""
    return cpu_name not in ("", "..") and Path(cpu_name).name == cpu_name


def _logs_in(folders: list[Path], cpu_name: str) -> tuple[Path, ...]:
    if not is_file_name(cpu_name):
        return ()
    return tuple(path for folder in folders for path in sorted((folder / cpu_name).glob("*.log")))
