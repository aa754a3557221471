"""A function of 8-bit codes as the table of its values.

    y[n, c, h, w] = table[x[n, c, h, w]]

The table is an attribute: a constant operand would look like one value for each channel.
"""

from __future__ import annotations

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.core.machine.look_up import ENTRIES
from tvm_neocpu.relay_passes.ir.constants import Array, constant_of
from tvm_neocpu.relay_passes.operators.call_form import ELEMENTWISE
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.math.look_up import looked_up

LOOK_UP = "relax.neocpu.look_up"


def look_up(codes: relax.Expr, table: Array) -> relax.Call:
    """The values of uint8 ``codes``, of any shape; ``table`` has one uint8 for each code."""
    assert table.shape == (ENTRIES,) and table.dtype == np.uint8
    return _LOOK_UP(codes, table=table.tobytes().hex())


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def compute(codes: te.Tensor, table: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            return looked_up(table, codes(*at))

        return te.compute(codes.shape, element, name="look_up")

    table = np.frombuffer(bytes.fromhex(str(call.attrs["table"])), "uint8")
    return builder.call_te(
        compute,
        call.args[0],
        constant_of(table),  # an operand: layers of different tables share a kernel
        primfunc_name_hint="look_up",
        primfunc_attrs={"op_pattern": ELEMENTWISE},  # for the epilogue of the layer in front
    )


_LOOK_UP = NewOp(LOOK_UP, infer=lambda call: call.args[0].ty, legalize=_legalize)

__all__ = ["LOOK_UP", "look_up"]
