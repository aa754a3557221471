"""Compiled kernels as object files: written with a checksum, linked, loaded.

SYMBOL, a line break, the object, its SHA-256
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
import tvm_ffi

from tvm_neocpu.codegen.scratch import scratch_folder
from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.files.linker import link

_SHA_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class KernelObject:
    """Machine code of one function, ``symbol``, and maybe of others: an object file's content."""

    symbol: str
    content: bytes


def save_object(made: KernelObject, path: Path) -> None:
    """Write an entry, whole or not at all. Raises OSError where the folder takes none."""
    content = made.symbol.encode() + b"\n" + made.content
    with draft_of(path) as draft:
        draft.write_bytes(content + hashlib.sha256(content).digest())


def load_object(path: Path) -> KernelObject:
    """An entry's object. Raises ModuleFileError for one that is damaged."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise ModuleFileError(f"it cannot be read: {first_line(error)}") from error
    content = whole[:-_SHA_BYTES]
    if not content or hashlib.sha256(content).digest() != whole[-_SHA_BYTES:]:
        raise ModuleFileError("it is damaged: its checksum is another")
    symbol, _, code = content.partition(b"\n")
    return KernelObject(symbol.decode(), code)


def static_libraries(objects: Sequence[KernelObject]) -> tuple[tvm.runtime.Module, ...]:
    """Objects as modules that an export links; they do not run."""
    with objects_in_files(objects) as files:
        return tuple(
            tvm.runtime.load_static_library(file, list(symbols)) for file, symbols in files.items()
        )


def loaded(objects: Sequence[KernelObject]) -> tvm_ffi.Module:
    """Objects linked and loaded into this process, to be asked for their symbols."""
    with scratch_folder() as folder, objects_in_files(objects) as files:
        library = f"{folder}/kernels.so"
        link(library, list(files), "load kernels")
        return tvm_ffi.load_module(library, keep_module_alive=False)


@contextlib.contextmanager
def objects_in_files(objects: Sequence[KernelObject]) -> Iterator[dict[str, dict[str, None]]]:
    """Paths of object files, for a moment, and the symbols that are wanted of each.

    Of a module that was compiled twice one object is taken: both define all its symbols, and differ
    in names of variables. Two processes write parts of both into a folder without locks.
    """
    modules: dict[str, tuple[bytes, dict[str, None]]] = {}
    for each in objects:
        _, symbols = modules.setdefault(_module_of(each.symbol), (each.content, {}))
        symbols[each.symbol] = None
    with scratch_folder() as folder:
        files = {}
        for number, (content, symbols) in enumerate(modules.values()):
            path = Path(folder) / f"{number}.o"
            path.write_bytes(content)
            files[str(path)] = symbols
        yield files


def _module_of(symbol: str) -> str:
    """What the symbols of a module's kernels have in common: kernel_KEY, kernel_KEY_GROUP."""
    before, _, last = symbol.rpartition("_")
    return symbol if before == "kernel" else last
