"""Names by which a shared library is opened, so that a replaced file is not taken for the old one.

The system's loader knows what it has opened by name: a file that was replaced under its name, while
a process had it open, would answer with the old code.

    load("net.so"); export_library("net.so"); load("net.so")   # the second one is opened by a link
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import StrPath

# What TVM's loader takes for a library's name.
LINKED = (".so", ".dylib", ".dll")

File = tuple[int, int]

# The file that this process opened first under each name.
_first: dict[str, File] = {}


@contextmanager
def name_to_open(library: StrPath) -> Iterator[str]:
    """The library's own name, or that of a link for as long as the context lasts: where the file
    was replaced, or is called ``net.so.1``.

    Raises OSError where the file or a folder for the link is not to be had.
    """
    name = os.path.realpath(library)
    found = os.stat(name)
    file = found.st_dev, found.st_ino
    is_named = os.path.splitext(name)[1] in LINKED
    if is_named and _first.setdefault(name, file) == file:
        yield name
        return
    from tempfile import TemporaryDirectory  # few files need a link

    with TemporaryDirectory(prefix="neocpu-") as folder:
        link = os.path.join(folder, os.path.basename(name) if is_named else f"library{LINKED[0]}")
        os.symlink(name, link)
        yield link
