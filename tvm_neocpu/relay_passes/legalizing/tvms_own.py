"""What TVM itself makes of a call, where no legalisation of ours takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import op_name

# An entry of the table for ``relax.transform.LegalizeOps``.
Legalization: TypeAlias = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def as_tvm_does(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """The call legalised by TVM; the call itself, where TVM has no rule for its operator."""
    legalize = tvm.ir.Op.get(op_name(call)).get_attr("FLegalize")
    return call if legalize is None else legalize(builder, call)
