"""Compiled modules as archives of object files, which are linked as they are loaded."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tvm_neocpu.core.errors import ModuleFileError, first_line
from tvm_neocpu.runtime.files.binary import check_object
from tvm_neocpu.runtime.files.linker import link

if TYPE_CHECKING:
    from _typeshed import StrPath


_CHUNK = 1 << 20
# A member's header with its checksum; archives of earlier versions have none.
CHECKSUM = "NEOCPU.sha256"


def checksum_of(content: BinaryIO) -> str:
    """Of the file from its start on, which is where it is left."""
    content.seek(0)
    found = hashlib.sha256()
    while part := content.read(_CHUNK):
        found.update(part)
    content.seek(0)
    return found.hexdigest()


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
                _check_content(target, member, path)
                objects.append(target)
            _check_end(archive, path)
    except tarfile.TarError as error:
        raise ModuleFileError(f"cannot load {path}: it is no tar file, or truncated") from error
    except (OSError, EOFError) as error:
        raise ModuleFileError(f"cannot load {path}: {first_line(error)}") from error
    if not objects:
        raise ModuleFileError(f"cannot load {path}: not exported by tvm_neocpu, no objects in it")
    return objects


def _check_content(file: Path, member: tarfile.TarInfo, path: StrPath) -> None:
    with file.open("rb") as content:
        found = checksum_of(content)
    if member.pax_headers.get(CHECKSUM, found) != found:
        raise ModuleFileError(f"cannot load {path}: it is damaged: its checksum is another")


def _check_end(archive: tarfile.TarFile, path: StrPath) -> None:
    """Refuse an archive without its two last blocks: it was cut between two members."""
    assert archive.fileobj is not None, "an open archive has a file"
    if archive.fileobj.seek(0, os.SEEK_END) < archive.offset + 2 * tarfile.BLOCKSIZE:
        raise ModuleFileError(f"cannot load {path}: it is truncated")


def _object_members(archive: tarfile.TarFile) -> Iterable[tarfile.TarInfo]:
    return (item for item in archive.getmembers() if item.isfile() and item.name.endswith(".o"))
