"""An intrinsic of LLVM's that leaves no instruction, and that LLVM's loop passes respect.

It counts as an instruction for the unroller, and no vector is made of a loop that has it.
"""

from __future__ import annotations

from functools import cache

import tvm
from tvm import tirx
from tvm.ir import Expr

# A constant's use is dropped (LLVM 20 on).
FAKE_USE = "llvm.fake.use"


def fake_use() -> Expr | None:
    """The intrinsic over a constant; ``None`` where the LLVM that TVM was built with has none."""
    if not _is_known():
        return None
    return tirx.call_llvm_intrin("void", FAKE_USE, tirx.const(0, "int32"))


@cache
def _is_known() -> bool:
    look_up = tvm.get_global_func("target.llvm_lookup_intrinsic_id", allow_missing=True)
    return look_up is not None and bool(look_up(FAKE_USE))
