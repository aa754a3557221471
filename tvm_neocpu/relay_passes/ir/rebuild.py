"""Walking and rebuilding the one dataflow function that an imported network is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tvm
from tvm import relax

Emit = Callable[[relax.Expr], relax.Var]


def bindings_of(func: relax.Function) -> Iterator[tuple[relax.Var, relax.Expr]]:
    """(variable, value) in program order."""
    for block in func.body.blocks:
        for binding in block.bindings:
            yield binding.var, binding.value


def is_straight_line(func: relax.Function) -> bool:
    """Whether ``func`` is a pure list of calls, tuples and names: what layouts can flow through.

    Branches, local functions and casts of shapes (MatchCast) are not.
    """
    if not func.is_pure or not isinstance(func.body, relax.SeqExpr):
        return False
    bindings = [binding for block in func.body.blocks for binding in block.bindings]
    return all(
        isinstance(binding, relax.VarBinding)
        and not isinstance(binding.value, relax.If | relax.Function | relax.SeqExpr)
        for binding in bindings
    )


def rebuild_main(
    mod: tvm.IRModule,
    visit: Callable[[relax.Var, relax.Expr, Emit], None],
    result: Callable[[relax.Expr, Emit], relax.Expr],
) -> tvm.IRModule:
    """A module whose ``main`` is made anew, binding by binding.

    ``visit(var, value, emit)`` emits whatever takes the binding's place and remembers it;
    ``result`` makes the function's result from the old one. Parameters, attributes and the other
    functions are kept. A ``main`` that is no straight line stays as it is.
    """
    func = mod["main"]
    if not is_straight_line(func):
        return mod
    builder = relax.BlockBuilder()
    with builder.function("main", list(func.params), attrs=dict(func.attrs or {})):
        with builder.dataflow():
            for var, value in bindings_of(func):
                visit(var, value, builder.emit)
            output = builder.emit_output(result(func.body.body, builder.emit))
        builder.emit_func_output(output)
    functions = dict(mod.functions)
    functions[mod.get_global_var("main")] = builder.get()["main"]
    return tvm.IRModule(functions)


def over_variables(value: relax.Expr, renamed: Callable[[relax.Var], relax.Expr]) -> relax.Expr:
    """The expression with every variable replaced; calls and tuples around them are made anew."""
    if isinstance(value, relax.Var):
        return renamed(value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([over_variables(item, renamed) for item in value])
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(over_variables(value.tuple_value, renamed), value.index)
    if isinstance(value, relax.Call):
        args = [over_variables(arg, renamed) for arg in value.args]
        return relax.Call(value.op, args, value.attrs, value.ty_args)
    return value
