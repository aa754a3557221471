"""Formulas of elements, compiled as functions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import tvm
from tvm import te, tirx

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.schedule_function import schedule_function

Floats = npt.NDArray[np.float32]


def applied(formula: Callable[..., tirx.Expr], values: Floats, target: str = "llvm") -> Floats:
    """What a formula of one number makes of each."""
    padded = np.zeros((values.size + 15) // 16 * 16, "float32")
    padded[: values.size] = values
    out = tvm.runtime.empty((padded.size // 16, 16), "float32")
    compiled(formula, padded.size, target)(tvm.runtime.tensor(padded.reshape(-1, 16)), out)
    return np.asarray(out.numpy().ravel()[: values.size])


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
