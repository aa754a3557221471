"""What commands write: logs, reports and models; whether they can is tested before the work."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tvm_neocpu.core.draft import draft_of
from tvm_neocpu.core.errors import LogError, NeoCpuError
from tvm_neocpu.tuning.database.folders.file_lines import HEAD

if TYPE_CHECKING:
    import onnx

# What no text has.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a]")
# Other programs mean their standard output by it.
_DASH = Path("-")


def prepare_log(path: Path) -> Path:
    """The log's path, after a test that the log can be written.

    Raises LogError before hours of tuning instead of after them, and for what is no file (a device
    may have no end) or is another kind of file.
    """
    from tvm_neocpu.tuning.database.log import TuningLog

    if path.exists() and not path.is_file():
        raise LogError(f"cannot write the log {path}: it is not a file")
    with writing(f"the log {path}", LogError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    TuningLog(path).check_writable()
    return path


def check_writable(path: Path | None, is_report: bool = True) -> None:
    """Test that a report, or something else, can be written to ``path``, if there is one.

    Raises NeoCpuError before minutes of measuring instead of after them. No empty file is left
    where the measuring fails.
    """
    if path is None:
        return
    if path == _DASH:
        raise NeoCpuError("- is no file here: name one, or /dev/stdout")
    if is_report:
        _check_is_no_other_file(path)
    with writing(path):
        is_there = path.exists()
        if is_there:
            path.open("a").close()
    if not is_there:
        check_replaceable(path.resolve() if path.is_symlink() else path)


def check_reports(*paths: Path | None) -> None:
    """:func:`check_writable` and :func:`check_apart` for all reports of a command."""
    check_apart(*paths)
    for path in paths:
        check_writable(path)


def check_apart(*paths: Path | None) -> None:
    """Test that no two of what a command writes are one file. Raises NeoCpuError."""
    places: set[Path] = set()
    for path in filter(None, paths):
        place = path.resolve()
        if place in places and (path.is_file() or not path.exists()):
            raise NeoCpuError(f"{path} is asked for twice: name another file")
        places.add(place)


def _check_is_no_other_file(path: Path) -> None:
    """Raise NeoCpuError for a file that no report replaces: a model, a library, a tuning log."""
    with writing(path):
        if not path.is_file():
            return
        with path.open("rb") as file:
            head = file.read(HEAD)
    if _CONTROL.search(head) or any(line.startswith(b'{"input"') for line in head.splitlines()):
        raise NeoCpuError(f"{path} is no report: name another file")


def check_replaceable(path: Path) -> None:
    """Test that a new file can take ``path``'s place; what is there stays. Raises NeoCpuError."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        tempfile.TemporaryFile(dir=path.parent).close()


def write_report(path: Path | None, report: dict[str, Any]) -> None:
    """Write ``report`` as JSON to ``path``, if there is one. Raises NeoCpuError."""
    if path:
        write_text(path, json.dumps(report, indent=2, default=str) + "\n")


def write_model(path: Path, model: onnx.ModelProto) -> None:
    """Write an ONNX file. Raises NeoCpuError."""
    write_file(path, lambda file: file.write(model.SerializeToString()))


def write_text(path: Path, text: str) -> None:
    """Write a text; of a name that is not UTF-8 the odd bytes are spelled. Raises NeoCpuError.

    In place: ``path`` may be /dev/stdout, which a shell sends to a file. A text that is there is
    replaced; a tuning log, or what is no text, is refused.
    """
    _check_is_no_other_file(path)
    with writing(path):
        path.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file; a full disk leaves what was there, no half of it. Raises NeoCpuError."""
    with writing(path):
        place = path.resolve()
        if (path.exists() and not path.is_file()) or not os.access(place.parent, os.W_OK):
            with path.open("wb") as file:  # a device has no draft
                write(file)
            return
        with draft_of(place) as draft:
            with draft.open("wb") as file:
                write(file)
            if place.exists():
                shutil.copymode(place, draft)


@contextlib.contextmanager
def writing(what: Path | str, error_type: type[NeoCpuError] = NeoCpuError) -> Iterator[None]:
    """Turn an OSError inside the block into ``error_type`` with one line."""
    try:
        yield
    except OSError as error:
        raise error_type(f"cannot write {what}: {error.strerror}") from error
