"""Formulas of formulas: how many of them one fused function may hold.

TVM's code generator writes bound expressions out again where formulas nest: ``tanh(softplus(x))``
takes it seconds, ``erf(tanh(softplus(x)))`` did not end within minutes. A chain is cut before its
third formula, which then is a function of its own.
"""

from __future__ import annotations

from collections.abc import Container

from tvm import relax
from tvm.ir import Call, GlobalVar

from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, variables

MAX_FORMULAS = 2
# TVM's fusion looks no further back.
MAX_SEEN = 256


class FormulaChains:
    """The functions that were made of formulas in one module, and where chains of them end.

    ``ends`` are functions that begin a group of their own anyway, such as those of templates.
    """

    def __init__(self, ends: Container[GlobalVar] = ()) -> None:
        self._ends = ends
        self._formulas: dict[GlobalVar, int] = {}
        self._cut: set[GlobalVar] = set()

    def is_full(self, builder: relax.BlockBuilder, data: relax.Expr, weight: int) -> bool:
        """Whether a formula of ``data``, of this weight, would be one too many for a group."""
        stack = [(data, weight)]
        seen: dict[relax.Expr, int] = {}
        while stack and len(seen) < MAX_SEEN:
            expr, count = stack.pop()
            if not isinstance(expr, relax.Var) or seen.get(expr, -1) >= count:
                continue
            seen[expr] = count
            value = builder.lookup_binding(expr)
            callee = value.args[0] if op_name(value) == CALL_TIR else None
            if value is None or callee in self._cut or (callee and callee in self._ends):
                continue
            count += self._formulas.get(callee, 0)
            if count > MAX_FORMULAS:
                return True
            stack += [(operand, count) for operand in variables(value)]
        return False

    def add(self, call: Call, weight: int, cut: bool) -> None:
        """Remember the function that a formula's call calls; a ``cut`` one fuses with nothing."""
        if cut:
            self._cut.add(call.args[0])
        else:
            self._formulas[call.args[0]] = weight
