"""Compiled modules as archives of object files, which are linked as they are loaded."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.binary import check_object
from tvm_neocpu.runtime.linker import link

if TYPE_CHECKING:
    from _typeshed import StrPath


@contextmanager
def linked_objects(path: StrPath) -> Iterator[Path]:
    """A library of the archive's objects, in a folder that goes away. Raises ModuleFileError."""
    with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
        objects = _unpack(path, Path(folder))
        for item in objects:
            check_object(item, path)
        library = Path(folder) / "linked.so"
        link(str(library), [str(item) for item in objects], f"load {path}")
        yield library


def _unpack(path: StrPath, folder: Path) -> list[Path]:
    objects = []
    try:
        with tarfile.open(path) as archive:
            for member in _object_members(archive):
                target = folder / Path(member.name).name
                content = archive.extractfile(member)
                assert content is not None, "regular files have content"
                target.write_bytes(content.read())
                objects.append(target)
            _check_end(archive, path)
    except tarfile.TarError as error:
        raise ModuleFileError(f"cannot load {path}: it is no tar file, or truncated") from error
    except (OSError, EOFError) as error:
        raise ModuleFileError(f"cannot load {path}: {first_line(error)}") from error
    if not objects:
        raise ModuleFileError(f"cannot load {path}: not exported by tvm_neocpu, no objects in it")
    return objects


def _check_end(archive: tarfile.TarFile, path: StrPath) -> None:
    """Refuse an archive without its two last blocks: it was cut between two members."""
    assert archive.fileobj is not None, "an open archive has a file"
    if archive.fileobj.seek(0, os.SEEK_END) < archive.offset + 2 * tarfile.BLOCKSIZE:
        raise ModuleFileError(f"cannot load {path}: it is truncated")


def _object_members(archive: tarfile.TarFile) -> Iterable[tarfile.TarInfo]:
    return (item for item in archive.getmembers() if item.isfile() and item.name.endswith(".o"))
