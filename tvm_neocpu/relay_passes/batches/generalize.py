"""A network at one batch, rewritten for any: the batch's number becomes a variable; and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GlobalVar, TupleType
from tvm.relax.expr import _update_type


def with_open_batch(mod: tvm.IRModule, batch: int, variable: tirx.Var) -> tvm.IRModule:
    """The network with ``variable`` in place of ``batch``, in shapes, loops and whole numbers.

        relu(x: (1009, 8))               ->  relu(x: (n, 8))
        reshape(x, (1009 * 49, 64))      ->  reshape(x, (n * 49, 64))

    ``batch`` should be a number that no other extent is a multiple of.
    """

    def opened(number: tirx.IntImm) -> tirx.Expr:
        times, rest = divmod(int(number), batch)
        if rest or times < 1 or str(number.ty.dtype) != "int64":
            return number
        return variable if times == 1 else variable * times

    return _mapped(mod, [(tirx.IntImm, opened)])


def tells_batch(mod: tvm.IRModule, variable: tirx.Var) -> bool:
    """Whether each function over the batch has a parameter with as many rows: it learns it there.

    A function of a tensor (2 n, 8) alone does not learn n: TVM solves no equation for it.
    """

    def is_it(var: tirx.Var) -> tvm_ffi.VisitInterrupt | None:
        return tvm_ffi.VisitInterrupt(None) if var.same_as(variable) else None

    for func in mod.functions.values():
        if not isinstance(func, tirx.PrimFunc):
            continue
        buffers = [param for param in func.params if isinstance(param.ty, tirx.BufferType)]
        if any(variable.same_as(extent) for buffer in buffers for extent in buffer.shape):
            continue
        if tvm_ffi.structural_walk(func, (tirx.Var, is_it)) is not None:
            return False
    return True


def at_batch(mod: tvm.IRModule, variable: tirx.Var, batch: int) -> tvm.IRModule:
    """The network for one batch: the inverse of :func:`with_open_batch`.

    A function whose own variable stands for the batch, as Relax modules written by hand may have,
    keeps it: Relax passes the number when it calls the function.
    """

    def closed(var: tirx.Var) -> tirx.Expr:
        return tirx.IntImm("int64", batch) if var.same_as(variable) else var

    return _mapped(mod, [(tirx.Var, closed), (tirx.Mul, _product)])


def _product(expr: tirx.Mul) -> tirx.Expr:
    sides = (expr.a, expr.b)
    if not all(isinstance(side, tirx.IntImm) for side in sides):
        return expr
    return tirx.IntImm("int64", int(expr.a) * int(expr.b))


def _mapped(mod: tvm.IRModule, rules: list[tuple[Any, Callable[[Any], Any]]]) -> tvm.IRModule:
    """The module rewritten by the rules; the names of its loops get their new types."""
    names: dict[str, GlobalVar] = {}

    def renamed(name: GlobalVar) -> GlobalVar:
        return names.setdefault(str(name.name_hint), GlobalVar(name.name_hint))

    functions = {
        renamed(name): tvm_ffi.structural_map(func, [(GlobalVar, renamed), *rules])
        for name, func in mod.functions.items()
    }
    for name, func in functions.items():
        _update_type(name, _type_of(func))
    return relax.transform.Normalize()(tvm.IRModule(functions, attrs=mod.attrs))


def _type_of(func: Any) -> Any:
    if isinstance(func, relax.Function):
        return func.ty
    params = [
        relax.TensorType(list(param.shape), str(param.dtype))
        if isinstance(param.ty, tirx.BufferType)
        else param.ty
        for param in func.params
    ]
    return relax.FuncType(params, TupleType([]), False)
