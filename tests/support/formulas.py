"""Formulas of elements, compiled as functions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import te, tirx

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.schedule_function import schedule_function


def compiled(
    formula: Callable[..., tirx.Expr], count: int, target: str = "llvm", operands: int = 1
) -> tvm.runtime.Module:
    """A function of ``operands`` tensors and one for the result, each of (count / 16, 16)."""
    read = [te.placeholder((count // 16, 16), name=f"x{place}") for place in range(operands)]

    def element(*index: tirx.Var) -> tirx.Expr:
        return formula(*(x(*index) for x in read))

    result = te.compute(read[0].shape, element, name="y")
    parsed = parse_target(target)
    func = schedule_function(te.create_prim_func([*read, result]), parsed.cpu)
    return tvm.compile(func, parsed.target)
