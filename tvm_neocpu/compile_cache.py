"""Compiled networks from the user's cache folder: what was built before is not built again.

Sessions and `relay.build` come here, the former with an ONNX file, the latter with a module.

A key is a hash of everything that goes into a build: the model, shapes, target, this machine, logs
and settings, the versions of TVM and of this package's sources. It is made without the compiler, so
that a hit never imports it. Files of the cache are exported libraries, whose checksums are compared
before they are used, those of the weights too: half a second a gigabyte. What has to be built is
made of kernels that the folder has (`codegen/kernel_store.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.core.machine.cache_sizes import cache_sizes
from tvm_neocpu.core.messages.told import listening
from tvm_neocpu.core.tvm_version import tvm_version
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.ffi.tvm_library import library_folders
from tvm_neocpu.runtime.files.linker import c_compiler
from tvm_neocpu.runtime.process.calibration_place import chosen_path
from tvm_neocpu.runtime.process.heap import give_back, large_blocks_apart
from tvm_neocpu.runtime.process.host import executable_features
from tvm_neocpu.runtime.process.threads import thread_count
from tvm_neocpu.storage.cache_folder import VARIABLE, CacheFolder, cache_folder
from tvm_neocpu.tuning.database.folders.log_folders import all_logs
from tvm_neocpu.version import __version__

if TYPE_CHECKING:
    import tvm

    from tvm_neocpu.runtime.calls.functions import OnDemand

Found = TypeVar("Found")

_PACKAGE = Path(__file__).parent
# The warnings that are told again: their names, and where they are.
_WARNINGS = {
    "BoundWarning": "tvm_neocpu.core.accuracy.precision",
    "FallbackWarning": "tvm_neocpu.core.messages.fallback",
    "SlowNetworkWarning": "tvm_neocpu.topi.cost.speed_check",
}
# The variable that shows every pass: those of a cached network do not run.
DEBUG = "TVM_NEOCPU_DEBUG"


def cached(
    model: bytes,
    options: Mapping[str, Any],
    build: Callable[[], BuiltModule],
    read: Callable[[Path], Found],
) -> BuiltModule | Found:
    """The library from the cache, where ``build()`` puts it if it is not there yet.

    ``model`` and ``options`` are what the caller builds from. ``read`` makes of an entry's path
    what the caller wants. Without a C compiler, with the cache switched off, while passes are
    watched, or with implementations from outside the package, nothing is cached.
    """
    place = _usable_folder()
    return build() if place is None else _cached(place, model, options, build, read)


def _cached(
    place: Path,
    model: bytes,
    options: Mapping[str, Any],
    build: Callable[[], BuiltModule],
    read: Callable[[Path], Found],
) -> BuiltModule | Found:
    store = CacheFolder(place)
    key = key_of(model, options)
    found = store.read(key, read)
    if found is None:
        with store.locked(key):
            found = store.read(key, read)  # another process may have made it meanwhile
            if found is None:
                made = _made(store, key, build, read)
                give_back()  # what was compiled here, and its weights
                return made
    _tell_again(store.path(key))
    return found


def cached_network(
    networks: Mapping[str, tvm.IRModule],
    options: Mapping[str, Any],
    build: Callable[[], BuiltModule],
    on_demand: OnDemand | None,
) -> BuiltModule:
    """:func:`cached` for modules, by the names of their functions; the library can be compiled
    again, and for other shapes. Modules without a hash are not cached.
    """
    from tvm_neocpu.exporting.cached_library import library_of
    from tvm_neocpu.relay_passes.ir.content_hash import content_hash

    place = _usable_folder()
    if place is None:
        return build()
    hashes = {name: content_hash(mod) for name, mod in networks.items()}
    if None in hashes.values():
        return build()
    content = b"".join(name.encode() + (found or b"") for name, found in hashes.items())
    return _cached(
        place, content, options, build, lambda entry: library_of(entry, build, on_demand)
    )


def network_for_elsewhere(
    build: Callable[[], BuiltModule], on_demand: OnDemand | None
) -> BuiltModule:
    """A network for another CPU, of kernels that the folder has or gets; no cached file is kept.

    A ``.tar`` may be asked for, so that weights are packed at once.
    """
    from tvm_neocpu.codegen.kernel_store import kernels_kept
    from tvm_neocpu.codegen.late_weights import packed_at_once
    from tvm_neocpu.exporting.cached_library import library_of_objects

    place = _usable_folder()
    if place is None:
        return build()
    with kernels_kept(place), packed_at_once():
        return library_of_objects(build(), build, on_demand)


def _usable_folder() -> Path | None:
    """The user's cache folder; ``None`` where nothing is cached."""
    watched = bool(os.environ.get(DEBUG, "").strip())
    if watched or c_compiler() is None or _has_guests():
        return None
    return cache_folder()


def key_of(model: bytes, options: Mapping[str, Any]) -> str:
    """Forty hex digits."""
    about = {
        "options": options,
        "machine": [platform.machine(), _cpu_model(), cache_sizes(), thread_count()],
        "features": sorted(executable_features() or ()),
        "settings": {
            name: value
            for name, value in os.environ.items()
            if name.startswith("TVM_NEOCPU_") and name not in (VARIABLE, DEBUG)
        },
        "files": list(map(stamp, _files_that_count())),
        "applied": _applied_logs(),
        "versions": [__version__, tvm_version(), _sources()],
    }
    found = hashlib.sha256(model)
    found.update(json.dumps(about, sort_keys=True, default=str).encode())
    return found.hexdigest()[:40]


def _made(
    store: CacheFolder,
    key: str,
    build: Callable[[], BuiltModule],
    read: Callable[[Path], Found],
) -> BuiltModule | Found:
    """A new entry, read from its file as every later one: it consists of objects, and runs once
    they are linked.

    Where the folder takes no file, a temporary one does; failing that, it is compiled to run.
    """
    from tvm_neocpu.codegen.kernel_store import kernels_kept

    with listening() as heard, kernels_kept(store.folder):
        library = build()

    def save(path: Path) -> None:
        rows = [[type(said).__name__, str(said)] for said in heard]
        path.with_suffix(".json").write_text(json.dumps(rows), encoding="utf-8")
        with large_blocks_apart():  # weights are packed one after the other
            library.export_library(path)

    give_back()  # what the passes and LLVM took, before weights are packed
    written = store.write(key, save)
    store.drop_old(key)
    give_back()  # before the weights are mapped
    found = store.read(key, read) if written else None
    if found is not None:
        return found
    import tempfile  # where the cache has an entry, or takes one, nobody needs it

    try:
        with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
            path = Path(folder) / "network.so"
            library.export_library(path)
            return read(path)
    except (ModuleFileError, OSError):
        return build()


def _tell_again(path: Path) -> None:
    """The warnings of the build whose result this is."""
    try:
        for name, text in json.loads(path.with_suffix(".json").read_text("utf-8")):
            if name in _WARNINGS:
                kind = getattr(import_module(_WARNINGS[name]), name)
                warnings.warn(kind(text), stacklevel=4)
    except (OSError, ValueError, TypeError):  # no file, no JSON, or JSON of another kind
        return


def _has_guests() -> bool:
    """Whether somebody registered implementations: their code is in no hash of ours."""
    table = sys.modules.get("tvm_neocpu.topi.table")
    return table is not None and any(
        not one.config_type.__module__.startswith("tvm_neocpu.")
        for one in table.all_implementations()
    )


def _applied_logs() -> list[str]:
    """The contents of the logs that `apply_history_best` applies now."""
    history = sys.modules.get("tvm_neocpu.tuning.database.history")
    if history is None:
        return []
    paths = [path for log in history.applied_logs() for path in log.paths]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def _files_that_count() -> Iterator[Path]:
    """Logs that builds find by themselves, this machine's calibration, and TVM's libraries: who
    compiles TVM himself does so many times under one version.
    """
    yield from all_logs()
    for folder in library_folders():
        yield from sorted(Path(folder).glob("*tvm*"))
    calibration = chosen_path()
    if calibration is not None:
        yield calibration


def stamp(path: Path | os.DirEntry[str]) -> tuple[str, int, int]:
    """Path, size and time of a file; zeros for one that is not there."""
    name = os.fspath(path)
    try:
        status = path.stat()
    except (OSError, ValueError):
        return name, 0, 0
    return name, status.st_size, status.st_mtime_ns


@cache
def _sources() -> str:
    """What tells two states of the package's sources apart: names, sizes and times."""
    found = hashlib.sha256()
    for row in sorted(_python_files(str(_PACKAGE))):
        found.update(repr(row).encode())
    return found.hexdigest()


def _python_files(folder: str) -> Iterator[tuple[str, int, int]]:
    """The stamps of all below a folder; `Path.rglob` takes three times as long.

    Links to folders may lead in a circle; an editor's lock is a link to nothing.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _python_files(entry.path)
            elif entry.name.endswith(".py"):
                yield stamp(entry)


@cache
def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The lines that name the CPU; Python's word for it where there is no such file."""
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "CPU part")
    try:
        lines = cpuinfo.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return [platform.processor()]
    return [line for line in lines if line.split(":")[0].strip() in names]
