"""Which TVM is installed, told without importing it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def tvm_version() -> str:
    """The version of the package that brought TVM."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return "unknown"
