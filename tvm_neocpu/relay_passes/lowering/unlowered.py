"""What no pass could lower, named in one line.

TVM lowers an operator once the shape of its result follows from the shapes of its arguments. Two
extents that only a run knows broadcast to one that nothing names. Nor does it lower a convolution
of some layouts.
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
            f"cannot compile {name[1] if name else 'an operator'}: TVM has no code for its "
            "layouts, or what its extents broadcast to is not known before it runs"
        ) from error
