"""How the passes walk a Relax module: block by block, binding by binding, variables kept.

A block is replaced by a new list of bindings. Whoever changes the value of a variable binds the
same variable again, so its uses need no rewriting; an alias ``y = x`` and whatever became unused
are swept out at the end (:func:`tidy`), which also gives the new blocks their types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import tvm
from tvm import relax
from tvm.ir import Call, GenericConst

BlockRewrite = Callable[[relax.Function, relax.BindingBlock], list[relax.Binding]]
Rule = Callable[["Scope", relax.Expr], relax.Expr | None]


def rewrite_blocks(mod: tvm.IRModule, rewrite: BlockRewrite) -> tvm.IRModule:
    """A tidy module whose Relax functions had each top-level block rewritten; ``mod`` is kept."""
    result = mod.clone()
    for name, function in mod.functions_items():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            result.update_func(name, _with_rewritten_blocks(function, rewrite))
    return tidy(result)


def _with_rewritten_blocks(function: relax.Function, rewrite: BlockRewrite) -> relax.Function:
    blocks = [type(block)(rewrite(function, block)) for block in function.body.blocks]
    body = relax.SeqExpr(blocks, function.body.body)
    return relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )


def rewrite_values(mod: tvm.IRModule, rule: Rule) -> tvm.IRModule:
    """Offer every bound value to ``rule``, in order; ``None`` leaves the value as it is."""

    def rewrite(_: relax.Function, block: relax.BindingBlock) -> list[relax.Binding]:
        scope = Scope(mod, block)
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                scope.bindings.append(binding)
                continue
            replacement = rule(scope, binding.value)
            scope.bind(binding.var, binding.value if replacement is None else replacement)
        return scope.bindings

    return rewrite_blocks(mod, rewrite)


def tidy(mod: tvm.IRModule) -> tvm.IRModule:
    """Sweep out aliases, unused values and private functions that nobody calls any more."""
    mod = relax.transform.Normalize()(mod)
    mod = relax.transform.CanonicalizeBindings()(mod)
    return relax.transform.DeadCodeElimination()(mod)


class Scope:
    """The bindings written so far for one block, and what its variables stand for."""

    def __init__(self, mod: tvm.IRModule, block: relax.BindingBlock) -> None:
        self.mod = mod
        self.bindings: list[relax.Binding] = []
        self._new_var = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
        self._definitions: dict[relax.Var, relax.Expr] = {}
        self._builder = relax.BlockBuilder()

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Define a variable of the old block anew."""
        value = self.normalize(value)
        self._definitions[var] = value
        self.bindings.append(relax.VarBinding(var, value))

    def emit(self, value: relax.Expr) -> relax.Var:
        """Bind the value to a fresh variable."""
        value = self.normalize(value)
        var = self._new_var("lv", value.ty)
        self.bind(var, value)
        return var

    def normalize(self, value: relax.Expr) -> relax.Expr:
        """The value with its type inferred."""
        return self._builder.normalize(value)

    def resolve(self, expr: relax.Expr) -> relax.Expr:
        """Follow aliases: the oldest variable, or the constant, that ``expr`` is a name of."""
        while isinstance(expr, relax.Var) and _is_leaf(self._definitions.get(expr)):
            expr = self._definitions[expr]
        return expr

    def definition(self, expr: relax.Expr) -> relax.Expr:
        """What a variable of this block is bound to, aliases followed; itself if not known."""
        expr = self.resolve(expr)
        return self._definitions.get(expr, expr) if isinstance(expr, relax.Var) else expr


def call_of(expr: relax.Expr | None, op: str) -> Call | None:
    """``expr`` if it calls the operator of that name, such as ``"relax.add"``."""
    return expr if op_name(expr) == op else None


def op_name(expr: relax.Expr | None) -> str | None:
    """The operator that a call names; ``None`` for other expressions and other callees."""
    if not isinstance(expr, Call) or not isinstance(expr.op, tvm.ir.Op):
        return None
    return str(expr.op.name)


def count_uses(function: relax.Function) -> Counter[relax.Var]:
    """How often each variable is read in the function; twice for ``multiply(x, x)``."""
    uses: Counter[relax.Var] = Counter(variables(function.body.body))
    for block in function.body.blocks:
        for binding in block.bindings:
            uses.update(variables(binding.value))
    return uses


def variables(expr: relax.Expr) -> Iterator[relax.Var]:
    """The variables that an expression reads, with repeats."""
    if isinstance(expr, relax.Var):
        yield expr
    elif isinstance(expr, relax.TupleGetItem):
        yield from variables(expr.tuple_value)
    elif isinstance(expr, Call | relax.Tuple):
        for part in operands(expr):
            yield from variables(part)
    else:
        yield from relax.analysis.free_vars(expr)


def operands(expr: Call | relax.Tuple) -> list[relax.Expr]:
    """A call's arguments or a tuple's fields."""
    return list(expr.args if isinstance(expr, Call) else expr.fields)


def _is_leaf(expr: relax.Expr | None) -> bool:
    return isinstance(expr, relax.Var | GenericConst)


__all__ = [
    "Rule",
    "Scope",
    "call_of",
    "count_uses",
    "op_name",
    "operands",
    "rewrite_blocks",
    "rewrite_values",
    "tidy",
    "variables",
]
