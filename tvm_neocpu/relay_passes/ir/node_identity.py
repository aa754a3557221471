"""Names for graph nodes that survive edits elsewhere in the network.

A node's identity is a hash of its operator, attributes, workload and of its inputs' identities, so
it says what is computed and from what, never at which position. Twins get ordinals.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.calls import op_name


class IdentityTable:
    """Identities of the variables of one function, filled in program order."""

    def __init__(self) -> None:
        self._of_var: dict[relax.Var, str] = {}
        self._twins: Counter[str] = Counter()

    def add_parameter(self, var: relax.Var) -> str:
        return self._remember(var, f"input {var.name} {var.ty}")

    def add(self, var: relax.Var, value: relax.Expr) -> str:
        """Name the result of a binding after what it computes."""
        return self._remember(var, self._describe(value))

    def of(self, var: relax.Var) -> str:
        return self._of_var[var]

    def _remember(self, var: relax.Var, description: str) -> str:
        digest = hashlib.sha256(description.encode()).hexdigest()[:12]
        self._twins[digest] += 1
        ordinal = self._twins[digest]
        self._of_var[var] = digest if ordinal == 1 else f"{digest}-{ordinal}"
        return self._of_var[var]

    def _describe(self, value: relax.Expr) -> str:
        if isinstance(value, relax.Var):
            return self._of_var.get(value, value.name)
        if isinstance(value, GenericConst):
            return f"const {value.ty}"
        if isinstance(value, relax.Tuple):
            return "(" + ", ".join(self._describe(field) for field in value) + ")"
        if isinstance(value, relax.TupleGetItem):
            return f"{self._describe(value.tuple_value)}[{value.index}]"
        if isinstance(value, relax.Call):
            args = ", ".join(self._describe(arg) for arg in value.args)
            return f"{op_name(value) or value.op}({args}) {value.attrs}"
        return str(value)
