"""What no pass could lower, named in one line.

TVM lowers an operator once the shape of its result follows from the shapes of its arguments. Two
extents that only a run knows broadcast to one that nothing names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tvm

from tvm_neocpu.core.errors import UnsupportedOperatorError

_LEFT = "cannot emit this Relax operator"


@contextlib.contextmanager
def naming_what_is_left() -> Iterator[None]:
    """Code generation's error for a call that is not lowered, as UnsupportedOperatorError."""
    try:
        yield
    except tvm.error.InternalError as error:
        if _LEFT not in str(error):
            raise
        name = re.search(r"\bR\.([\w.]+)\(", str(error))
        raise UnsupportedOperatorError(
            f"cannot compile {name[1] if name else 'an operator'}: the extents of its inputs are "
            "known at run time only, and what they broadcast to is not known at all"
        ) from error
