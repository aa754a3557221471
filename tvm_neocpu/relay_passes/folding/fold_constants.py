"""Evaluate operations on constants with NumPy; nothing is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_neocpu.relay_passes.folding.numpy_ops import NUMPY_OPS
from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import op_name, operands
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

Value = Array | tuple[Array, ...]


@dataclass(frozen=True)
class FoldConstants:
    """Replace the results of operations on constants by constants.

    An operation is folded if :data:`NUMPY_OPS` has it and NumPy's result has the shape that Relax
    inferred. A chain of views (broadcast, transpose) is stored once, at its end.

    Needs: nothing; it is the first pass.
    Leaves: a weight is a constant argument of its call, however the importer computed it.
    """

    name: ClassVar[str] = "fold-constants"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, lambda scope: _Folder(scope).fold())


class _Folder:
    """One region's known values: views while only views are made of them, then constants."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._values: dict[relax.Var, Value] = {}
        self._constants: dict[relax.Var, GenericConst] = {}

    def fold(self) -> None:
        outputs = set(self._scope.region.outputs)
        for binding in self._scope.region.bindings:
            self._scope.bind(binding.var, self._folded(binding, binding.var in outputs))

    def _folded(self, binding: relax.VarBinding, is_output: bool) -> relax.Expr:
        value = self._evaluate(binding.value)
        if value is None:
            return self._with_constants(binding.value)
        self._values[binding.var] = value
        if is_output and isinstance(value, np.ndarray):
            return self._constant(binding.var)
        # Readers in the region receive the constant, so that this binding is dead or a tuple.
        return binding.value

    def _evaluate(self, expr: relax.Expr) -> Value | None:
        if isinstance(expr, relax.Var):
            return self._values.get(expr)
        if isinstance(expr, relax.TupleGetItem):
            parts = self._values.get(expr.tuple_value)
            return parts[expr.index] if isinstance(parts, tuple) else None
        function = NUMPY_OPS.get(op_name(expr))
        if function is None:
            return None
        args = [self._argument(arg) for arg in expr.args]
        if any(arg is None for arg in args):
            return None
        with np.errstate(all="ignore"):
            return _as_inferred(function(expr.attrs, *args), expr.ty)

    def _argument(self, expr: relax.Expr) -> Any:
        """The argument as :data:`NUMPY_OPS` takes it; ``None`` if it is not known."""
        if isinstance(expr, relax.Var):
            return self._values.get(expr)
        if isinstance(expr, relax.Tuple):
            return _all_known([self._argument(field) for field in expr.fields])
        if isinstance(expr, relax.ShapeExpr):
            return _all_known([self._argument(dim) for dim in expr.values])
        if isinstance(expr, tvm.tirx.IntImm):
            return int(expr)
        if isinstance(expr, tvm.tirx.FloatImm):
            return float(expr)
        return array_of(expr)

    def _with_constants(self, expr: relax.Expr) -> relax.Expr:
        """A call or tuple with constants in place of known variables."""
        if not isinstance(expr, Call | relax.Tuple):
            return expr
        old = operands(expr)
        new = [self._operand(part) for part in old]
        if all(after is before for before, after in zip(old, new, strict=True)):
            return expr
        if isinstance(expr, relax.Tuple):
            return relax.Tuple(new)
        return Call(expr.op, new, expr.attrs, expr.ty_args, expr.span, ret_ty=expr.ty)

    def _operand(self, expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.Tuple):
            return self._with_constants(expr)
        if not isinstance(expr, relax.Var) or not isinstance(self._values.get(expr), np.ndarray):
            return expr
        return self._constant(expr)

    def _constant(self, var: relax.Var) -> GenericConst:
        if var not in self._constants:
            self._constants[var] = constant_of(np.asarray(self._values[var]))
        return self._constants[var]


def _all_known(parts: list[Any]) -> tuple[Any, ...] | None:
    return None if any(part is None for part in parts) else tuple(parts)


def _as_inferred(value: Value | None, ty: relax.Type) -> Value | None:
    """The value in the element type that Relax inferred; ``None`` if the shapes differ."""
    if value is None:
        return None
    if isinstance(value, tuple):
        fields = getattr(ty, "fields", ())
        if len(fields) != len(value):
            return None
        return _all_known([_as_inferred(v, field) for v, field in zip(value, fields, strict=True)])
    if static_shape_of(ty) != np.shape(value):
        return None
    return np.asarray(value).astype(str(ty.dtype), copy=False)


__all__ = ["FoldConstants"]
