"""How the passes rewrite a Relax module: region by region (:mod:`.regions`).

A pass is handed a :class:`Scope` for each region. It reads the old bindings of ``scope.region``
and writes the new ones. One rule holds the module together: every variable that is read outside
its region is bound again in it, to a value that is equal to the old one. So a pass may rename,
split, merge or drop bindings inside a region, and nothing outside needs to know::

    lv = conv2d(x)                        lv2 = conv2d(x)  # blocked
    y = relu(lv)    # output       ->     lv3 = relu(lv2)  # blocked
                                          y = layout_transform(lv3)

What the passes leave behind (aliases ``y = x``, unused values) is swept out by :func:`tidy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.regions import Region, count_uses, parts_of, relax_functions
from tvm_neocpu.relay_passes.ir.window_types import with_window_type

# Python's note on a module that was tidied; no copy of the module has it.
_TIDY = "_neocpu_is_tidy"
Rule = Callable[["Scope", relax.Expr], relax.Expr | None]
Definitions = dict[relax.Var, relax.Expr]


class Scope:
    """One region being rewritten: its new bindings so far, and the definitions in its block."""

    def __init__(
        self, mod: tvm.IRModule, region: Region, block: relax.BindingBlock, known: Definitions
    ) -> None:
        self.mod = mod
        self.region = region
        self.bindings: list[relax.Binding] = []
        self._new_var = relax.DataflowVar if isinstance(block, relax.DataflowBlock) else relax.Var
        self._definitions = known
        self._builder = relax.BlockBuilder()

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Define a variable of the old region anew."""
        self._define(var, self.normalize(value))

    def keep(self, binding: relax.VarBinding, value: relax.Expr) -> None:
        """Leave a binding of the old region, and its ``value``, as they are."""
        self._definitions[binding.var] = value
        self.bindings.append(binding)

    def emit(self, value: relax.Expr) -> relax.Var:
        """Bind the value to a fresh variable."""
        value = self.normalize(value)
        var = self._new_var("lv", value.ty)
        self._define(var, value)
        return var

    def combine(
        self, join: Callable[[relax.Expr, relax.Expr], relax.Expr], parts: Sequence[relax.Expr]
    ) -> relax.Expr:
        """One tensor of several, joined from the left, each result bound; a single one itself."""
        return functools.reduce(lambda one, other: self.emit(join(one, other)), parts)

    def _define(self, var: relax.Var, value: relax.Expr) -> None:
        self._definitions[var] = value
        self.bindings.append(relax.VarBinding(var, value))

    def normalize(self, value: relax.Expr) -> relax.Expr:
        """The value with its type inferred."""
        return self._builder.normalize(with_window_type(value))

    def resolve(self, expr: relax.Expr) -> relax.Expr:
        """``expr`` with aliases followed: the oldest variable of that value, or a constant."""
        while isinstance(expr, relax.Var) and _is_leaf(self._definitions.get(expr)):
            expr = self._definitions[expr]
        return expr

    def definition(self, expr: relax.Expr) -> relax.Expr:
        """The value of a variable of this block, aliases followed; ``expr`` if it is not known."""
        expr = self.resolve(expr)
        return self._definitions.get(expr, expr) if isinstance(expr, relax.Var) else expr


def rewrite_regions(mod: tvm.IRModule, rewrite: Callable[[Scope], None]) -> tvm.IRModule:
    """A tidy module whose regions are rewritten, in every Relax function; ``mod`` is kept.

    Where nothing changes, a tidy module is its own result. The module's attributes, the functions'
    names, parameters and attributes, and everything between regions stay. Raises ValueError if
    ``rewrite`` leaves an output of a region unbound.
    """
    result, is_changed = mod.clone(), False
    for name, function in relax_functions(mod):
        walk = _Walk(mod, function, rewrite)
        rewritten = walk.rewritten()
        if walk.is_changed:
            result.update_func(name, rewritten)
            is_changed = True
    return tidy(result if is_changed else mod)


def rewrite_values(mod: tvm.IRModule, rule: Rule) -> tvm.IRModule:
    """Offer every bound value to ``rule``, in order; ``None`` leaves the value as it is."""

    def rewrite(scope: Scope) -> None:
        for binding in scope.region.bindings:
            value = binding.value
            replacement = rule(scope, value)
            if replacement is None:
                scope.keep(binding, value)
            else:
                scope.bind(binding.var, replacement)

    return rewrite_regions(mod, rewrite)


def tidy(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without aliases and dead code (:func:`remove_dead_code`), all types inferred.

    A module that this made is its own result: never change it in place.
    """
    if getattr(mod, _TIDY, False):
        return mod
    mod = relax.transform.Normalize()(mod)
    mod = relax.transform.CanonicalizeBindings()(mod)
    mod = remove_dead_code(mod)
    setattr(mod, _TIDY, True)
    return mod


def remove_dead_code(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without unused values and without private functions that nothing calls.

    If no Relax function is public, as in a module made of one bare function, all of them stay.
    """
    functions = relax_functions(mod)
    public = [name for name, func in functions if func.attrs and "global_symbol" in func.attrs]
    entries = public or [name for name, _ in functions]
    names = [name.name_hint for name in entries]
    return relax.transform.DeadCodeElimination(names)(mod)


class _Walk:
    """The rewriting of one function's blocks, and of the blocks in its branches."""

    def __init__(
        self, mod: tvm.IRModule, function: relax.Function, rewrite: Callable[[Scope], None]
    ) -> None:
        self._mod = mod
        self._function = function
        self._rewrite = rewrite
        self._uses = count_uses(function)
        # Whether any region has other bindings than before.
        self.is_changed = False

    def rewritten(self) -> relax.Function:
        old = self._function
        return relax.Function(
            old.params, self._body(old.body), old.ret_ty, old.is_pure, old.attrs, old.span
        )

    def _body(self, body: relax.SeqExpr) -> relax.SeqExpr:
        return relax.SeqExpr([self._block(block) for block in body.blocks], body.body, body.span)

    def _block(self, block: relax.BindingBlock) -> relax.BindingBlock:
        known: Definitions = {}
        bindings: list[relax.Binding] = []
        for part in parts_of(block):
            if isinstance(part, tuple):
                bindings += self._region(Scope(self._mod, Region(part, self._uses), block, known))
            else:
                bindings.append(self._boundary(part))
        return type(block)(bindings, block.span)

    def _region(self, scope: Scope) -> list[relax.Binding]:
        self._rewrite(scope)
        old = scope.region.bindings
        if len(old) == len(scope.bindings) and all(map(_is_same, scope.bindings, old)):
            return scope.bindings
        self.is_changed = True
        bound = {binding.var for binding in scope.bindings}
        lost = [var.name for var in scope.region.outputs if var not in bound]
        if lost:
            raise ValueError(f"a pass dropped {', '.join(lost)}, which is read outside its region")
        return scope.bindings

    def _boundary(self, binding: relax.Binding) -> relax.Binding:
        value = binding.value
        if not isinstance(binding, relax.VarBinding) or not isinstance(value, relax.If):
            return binding
        branches = (self._body(value.true_branch), self._body(value.false_branch))
        return relax.VarBinding(binding.var, relax.If(value.cond, *branches, value.span))


def _is_same(new: relax.Binding, old: relax.VarBinding) -> bool:
    return new is old or (new.var.same_as(old.var) and new.value.same_as(old.value))


def _is_leaf(expr: relax.Expr | None) -> bool:
    return isinstance(expr, relax.Var | GenericConst)


__all__ = [
    "Rule",
    "Scope",
    "remove_dead_code",
    "rewrite_regions",
    "rewrite_values",
    "tidy",
]
