"""Names for graph nodes that survive edits elsewhere in the network.

The identity of a node is a hash of its operator, its attributes, the shapes of its constants and
the identities of its inputs. It says what is computed from what, not at which position. Equal nodes
get ordinals.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions


def identities_of(mod: tvm.IRModule) -> dict[relax.Var, str]:
    """The identity of every parameter and every bound variable of the Relax functions."""
    table = _IdentityTable()
    for _, function in relax_functions(mod):
        for parameter in function.params:
            table.add(parameter, f"input {parameter.name} {parameter.ty}")
        for binding in bindings_of(function):
            table.add(binding.var, table.describe_binding(binding))
    return table.of_var


class _IdentityTable:
    """Identities by variable, filled in program order."""

    def __init__(self) -> None:
        self.of_var: dict[relax.Var, str] = {}
        self._twins: Counter[str] = Counter()

    def add(self, var: relax.Var, description: str) -> None:
        """Name a variable after what it holds."""
        digest = hashlib.sha256(description.encode()).hexdigest()[:12]
        self._twins[digest] += 1
        ordinal = self._twins[digest]
        self.of_var[var] = digest if ordinal == 1 else f"{digest}-{ordinal}"

    def describe_binding(self, binding: relax.Binding) -> str:
        value = self._describe(binding.value)
        if isinstance(binding, relax.MatchCast):
            return f"match_cast({value}) {binding.var.ty}"
        return value

    def _describe(self, value: relax.Expr) -> str:
        if isinstance(value, relax.Var):
            return self.of_var.get(value, value.name)
        if isinstance(value, GenericConst):
            return f"const {value.ty}"
        if isinstance(value, relax.Tuple):
            return "(" + ", ".join(self._describe(field) for field in value) + ")"
        if isinstance(value, relax.TupleGetItem):
            return f"{self._describe(value.tuple_value)}[{value.index}]"
        if isinstance(value, relax.Call):
            args = ", ".join(self._describe(arg) for arg in value.args)
            return f"{op_name(value) or value.op}({args}) {value.attrs}"
        if isinstance(value, relax.If):
            parts = (value.cond, value.true_branch.body, value.false_branch.body)
            return f"if({', '.join(map(self._describe, parts))})"
        return str(value)


__all__ = ["identities_of"]
