"""Which TVM is installed, told without importing it."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec

_METADATA = re.compile(r"apache_tvm-(.+)\.dist-info")


@cache
def tvm_version() -> str:
    """The version of the package that brought TVM; its metadata lies beside it."""
    spec = find_spec("tvm")  # finds the package and does not import it
    if spec is not None and spec.origin:
        beside = os.path.dirname(os.path.dirname(spec.origin))
        found = [match[1] for match in map(_METADATA.fullmatch, os.listdir(beside)) if match]
        if len(found) == 1:
            return found[0]
    # 20 ms: it reads mail headers.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return "unknown"
