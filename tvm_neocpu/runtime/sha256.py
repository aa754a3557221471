"""SHA-256 without OpenSSL for small files: mapping its library takes 3 ms, which a network of a few
kernels has not.
"""

from __future__ import annotations

from typing import Any

# OpenSSL hashes 1.5 GB/s where CPUs have instructions for it, CPython's own code 0.2 to 0.4.
_SMALL_BYTES = 1 << 19


def sha256(size: int) -> Any:
    """A hash, as `hashlib` has it, for about so many bytes."""
    if size <= _SMALL_BYTES:
        try:
            return _own()
        except ImportError:  # private to CPython
            pass
    import hashlib

    return hashlib.sha256()


def _own() -> Any:
    try:
        from _sha2 import sha256 as own  # type: ignore[import-not-found]  # since Python 3.12
    except ImportError:
        from _sha256 import sha256 as own  # type: ignore[import-not-found]
    return own()
