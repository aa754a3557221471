"""Files by key in a folder that many processes share: bounded in size, safe to share, never needed.

Whatever goes wrong with the folder (read-only, full, locked) is said once, and the work is done
without it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tvm_neocpu.core.errors import ModuleFileError, NeoCpuError, first_line
from tvm_neocpu.runtime.process.fork_gate import pausing
from tvm_neocpu.storage.file_lock import FileLock

VARIABLE = "TVM_NEOCPU_CACHE"
OFF = "off"
# Networks, and kernels for networks that are to come.
NETWORK, KERNEL = ".so", ".kernel"
# Of all entries together; the one that was used longest ago goes first.
MAX_BYTES = 4 << 30
# A disk with less free is left to others.
MIN_FREE = 1 << 30
# Another process builds the same; after so long this one does it, too.
PATIENCE_SECONDS = 120.0

# What was said, and of which folder.
_said: set[tuple[str, str]] = set()

Found = TypeVar("Found")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that the variable names, else the user's own; ``None`` if switched off."""
    text = environment.get(VARIABLE, "").strip()
    if text.lower() == OFF:
        return None
    if text:
        return Path(text).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tvm_neocpu")) / "compiled"


class CacheFolder:
    """Entries ``KEY`` plus ``suffix``, each with a lock ``KEY.lock`` while somebody makes it."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES, suffix: str = NETWORK) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.suffix = suffix

    def path(self, key: str) -> Path:
        """Where an entry is, or would be."""
        return self.folder / f"{key}{self.suffix}"

    def read(self, key: str, load: Callable[[Path], Found]) -> Found | None:
        """The entry; ``None`` where there is none. One that cannot be loaded is removed.

        Of kernels the first one is said: a damaged disk may have damaged hundreds.
        """
        path = self.path(key)
        if not path.exists():
            return None
        try:
            found = load(path)
        except NeoCpuError as error:
            self._say_damaged(path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # it was used now
        return found

    def write(self, key: str, save: Callable[[Path], None]) -> bool:
        """Add an entry; whether it is there now. Failing is said once.

        Call :meth:`drop_old` after the last one.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(self.folder).free < MIN_FREE:
                raise ModuleFileError("its disk is full")
            save(self.path(key))
        except (NeoCpuError, OSError) as error:
            self._say(error)
            return False
        return True

    @contextlib.contextmanager
    def locked(self, key: str, wait: bool = True) -> Iterator[bool]:
        """Keep other processes and threads from making the same entry meanwhile, where possible.

        Without ``wait``, whether this is so: ``False`` means that somebody else makes it.
        """
        lock, alone = FileLock(self.folder / f"{key}.lock"), True
        try:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                with pausing():  # Ctrl-C may be heard here, and the lock be held already
                    alone = lock.acquire(PATIENCE_SECONDS if wait else 0.0)
            except OSError as error:
                self._say(error)
            if wait and not alone:
                text = f"{lock.path.name} was held for {PATIENCE_SECONDS:.0f} s"
                self._say(TimeoutError(text))
            yield alone or wait
        finally:
            lock.release()

    def drop_old(self, *kept: str) -> None:
        """Remove the entries that are too many, networks and kernels alike, but for those kept."""
        keep = {self.path(key) for key in kept}
        entries = []
        for path in [*self.folder.glob(f"*{NETWORK}"), *self.folder.glob(f"*{KERNEL}")]:
            with contextlib.suppress(OSError):  # another process may drop it at the same time
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                return
            if path not in keep:
                total -= size
                with contextlib.suppress(OSError):
                    path.unlink()
                    path.with_suffix(".json").unlink(missing_ok=True)

    def _say(self, error: Exception) -> None:
        text = getattr(error, "strerror", None) or first_line(error)
        unused = "the cache %s is not used: %s; %s names another folder, or is %s"
        if _is_first("unused", self.folder):
            _warn(unused, self.folder, text, VARIABLE, OFF)

    def _say_damaged(self, path: Path, error: Exception) -> None:
        if self.suffix != KERNEL:
            _warn("the cache's %s is built again: %s", path.name, error)
        elif _is_first("damaged", self.folder):
            text = "the cache's %s is built again: %s; so are others, if they are damaged, too"
            _warn(text, path.name, error)


def _is_first(what: str, folder: Path) -> bool:
    """Whether this was not yet said of the folder in this process."""
    case = what, str(folder)
    known = case in _said
    _said.add(case)
    return not known


def _warn(text: str, *about: object) -> None:
    from logging import getLogger  # 5 ms that few processes need

    getLogger("tvm_neocpu").warning(text, *about)
