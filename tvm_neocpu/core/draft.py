"""Files that no reader meets half written."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Another name beside ``path``, which takes its place at the end: no reader meets half a file.

    Raises nothing of its own; what is left after an error is removed.
    """
    draft = path.with_name(f".{path.stem}.{os.getpid()}-{threading.get_ident()}{path.suffix}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
