"""What a formula uses twice, bound to a name, and multiply-adds that keep it so.

TVM's simplifier writes every pure ``Let`` out again, and the nested polynomials of
tanh(softplus(x)) took it minutes; what is not pure it leaves alone. So these multiply-adds are said
to read state. The LLVM code generator still does it: three formulas of one another take it most of
a minute.
"""

from __future__ import annotations

from functools import cache, partial

import tvm
from tvm import tirx
from tvm.tirx.op import register_intrin_lowering

Expr = tirx.Expr

MULTIPLY_ADD = "tirx.neocpu_multiply_add"
ROUNDED_ONCE = "tirx.neocpu_multiply_add_rounded_once"
_LLVM = {MULTIPLY_ADD: "llvm.fmuladd", ROUNDED_ONCE: "llvm.fma"}
_READS_STATE = 2  # tirx.CallEffectKind.ReadState


class Lets:
    """The names given so far in one formula."""

    def __init__(self) -> None:
        self._bound: list[tuple[tirx.Var, Expr]] = []

    def __call__(self, value: Expr) -> Expr:
        """A variable that stands for ``value``."""
        var = tirx.Var("t", value.ty)
        self._bound.append((var, value))
        return var

    def around(self, value: Expr) -> Expr:
        """``value`` inside all bindings."""
        for var, bound in reversed(self._bound):
            value = tirx.Let(var, bound, value)
        return value


def multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """a b + c: fused where the target has such an instruction, else a product and a sum."""
    return _call(MULTIPLY_ADD, a, b, c)


def multiply_add_rounded_once(a: Expr, b: Expr, c: Expr) -> Expr:
    """a b + c, rounded once on every target: a call of libm where it has no such instruction."""
    return _call(ROUNDED_ONCE, a, b, c)


def _call(operator: str, a: Expr, b: Expr, c: Expr) -> Expr:
    _define_operators()
    return tirx.call_intrin(c.ty.dtype, operator, a, b, c)


@cache
def _define_operators() -> None:
    """Make the operators known to TVM, once, when the first formula uses one."""
    for operator, intrinsic in _LLVM.items():
        tvm.ir.register_op_attr(operator, "TCallEffectKind", _READS_STATE)
        tvm.ir.register_op_attr(operator, "TVectorizable", True)
        tvm.ir.register_op_attr(operator, "TScriptPrinterName", operator.removeprefix("tirx."))
        register_intrin_lowering(operator, "llvm", f=partial(_lowered, intrinsic), level=99)


def _lowered(intrinsic: str, call: tirx.Call) -> Expr:
    return tirx.call_llvm_intrin(call.ty, intrinsic, *call.args)
