"""A library of the compile cache, as `relay.build` returns it.

It runs from its file. What a file cannot do (be written in another format, show its source) the
network is compiled for, when somebody first asks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.exporting.write_module import INSIDE, check_place
from tvm_neocpu.runtime.built_module import BuiltModule, Write
from tvm_neocpu.runtime.calls.functions import OnDemand
from tvm_neocpu.runtime.files.module_file import read_module
from tvm_neocpu.runtime.files.module_info import ModuleInfo


def library_of(
    entry: Path, build: Callable[[], BuiltModule], on_demand: OnDemand | None = None
) -> BuiltModule:
    """The library in the cache's file ``entry``, which ``build`` compiles again.

    Raises ModuleFileError.
    """
    found = read_module(entry, check_weights=True)
    original = cache(build)
    return BuiltModule(
        found.module,
        found.info,
        on_demand,
        _writes(original, entry),
        found.weights_by_function,
        original,
    )


def library_of_objects(
    made: BuiltModule, build: Callable[[], BuiltModule], on_demand: OnDemand | None = None
) -> BuiltModule:
    """``made`` of objects, which it can write; its source ``build`` makes again."""
    return BuiltModule(
        made.module, made.info, on_demand, _writes(lambda: made), original=cache(build)
    )


def _writes(library: Callable[[], BuiltModule], entry: Path | None = None) -> Write:
    """Writes what ``library()`` exports; a copy of ``entry`` where this is what is asked for."""

    def write(
        _: Any,
        __: ModuleInfo,
        path: Path,
        fcompile: Callable[..., Any] | None,
        options: Mapping[str, Any],
        weights: str,
    ) -> None:
        check_place(path, weights, fcompile)
        plain = weights == INSIDE and not (fcompile or options)
        # The cache may have dropped its entry.
        if entry is not None and plain and path.suffix == entry.suffix and entry.exists():
            _copy(entry, path)
        else:
            library().export_library(path, fcompile, weights, **options)

    return write


def _copy(entry: Path, path: Path) -> None:
    try:
        with draft_of(path) as draft:
            shutil.copyfile(entry, draft)
            shutil.copymode(entry, draft)
    except OSError as error:
        raise ModuleFileError(
            f"cannot write {path}: {error.strerror or first_line(error)}"
        ) from error
