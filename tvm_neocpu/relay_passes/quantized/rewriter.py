"""One region being rewritten: what every variable of it stands for, and its forms on demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, over_variables
from tvm_neocpu.relay_passes.ir.rewrite import Scope
from tvm_neocpu.relay_passes.operators.new.look_up import look_up
from tvm_neocpu.relay_passes.quantized.encoding import MAX_CODE, SHIFTS, CodedConstant, Encoding
from tvm_neocpu.relay_passes.quantized.functions import (
    CODES,
    POINTWISE,
    CodeFunction,
    applied,
    number,
)
from tvm_neocpu.relay_passes.quantized.readers import Readers
from tvm_neocpu.relay_passes.quantized.sums import Sum, Term

_ZERO, _ONE = np.zeros((), "int32"), np.ones((), "float32")


@dataclass(frozen=True)
class Codes:
    """An 8-bit tensor of the file, of type ``dtype``, stored as uint8; int8 shifted by 128.

    ``whole``: the tensor in int32 or float32 that the codes were cast from, less the zero point.
    """

    tensor: relax.Expr
    dtype: str
    whole: relax.Expr | None = None


@dataclass(frozen=True)
class Stored:
    """Real numbers of which the codes are stored."""

    codes: Codes
    encoding: Encoding

    def as_sum(self) -> Sum:
        scale = np.asarray(self.encoding.scale, "float32")
        return Sum((Term(self.codes.tensor, scale, np.asarray(-self.encoding.zero)),))


@dataclass(frozen=True)
class Parts:
    """The results of a split, still one tuple."""

    values: tuple[Codes | Stored, ...]


# What is not in the table stands for itself.
Value = Codes | Stored | Sum | CodedConstant | Parts


class Rewriter:
    """The new bindings of a region; its rules are :mod:`.rules`'.

    ``looks_up``: the CPU finds codes in a table faster than it computes a product of them.
    """

    def __init__(self, scope: Scope, looks_up: bool) -> None:
        self.scope = scope
        self.readers = Readers(scope.region)
        self._looks_up = looks_up
        self._values: dict[relax.Var, Value] = {}
        self._bound: set[relax.Var] = set()
        self._coded: dict[tuple[relax.Var, Encoding], Codes] = {}
        # Of variables that were not deferred, and of tensors of codes that were made here.
        self._functions: dict[relax.Var, CodeFunction] = {}

    def value(self, expr: relax.Expr) -> Value | None:
        """What a variable stands for; ``None`` for one that was not deferred, and for constants."""
        return self._values.get(expr) if isinstance(expr, relax.Var) else None

    def defer(self, var: relax.Var, value: Value) -> None:
        """Bind the variable later, if something reads it in its own type."""
        self._values[var] = value

    def keep(self, var: relax.Var, value: relax.Expr) -> None:
        """Bind the variable now, to the value over tensors in their own types."""
        made = self._made_by(value)
        if made is not None:
            self._functions[var] = made
        self.bind(var, over_variables(value, self.own))

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        self.scope.bind(var, value)
        self._bound.add(var)

    def finish(self) -> None:
        """Bind what is read outside the region."""
        for var in self.scope.region.outputs:
            made = self.own(var)
            if var not in self._bound:
                self.bind(var, made)

    def own(self, expr: relax.Expr) -> relax.Expr:
        """A tensor in the type that the file gives it."""
        value = self.value(expr)
        if value is None or expr in self._bound:
            return expr
        if isinstance(value, CodedConstant):
            return value.real()
        made = self._in_own_type(value)
        if len(self.readers.of(expr)) > 1 and isinstance(value, Stored):
            # To dequantise once for each reader is cheaper than to store floats.
            return self.scope.emit(made)
        self.bind(expr, made)
        return expr

    def _in_own_type(self, value: Value) -> relax.Expr:
        emit = self.scope.emit
        if isinstance(value, Parts):
            return relax.Tuple([emit(self._in_own_type(part)) for part in value.values])
        if isinstance(value, Stored):
            return value.as_sum().real(emit)
        if isinstance(value, Codes):
            return self._unshifted(value)
        assert isinstance(value, Sum)
        return value.real(emit)

    def _unshifted(self, codes: Codes) -> relax.Expr:
        if not SHIFTS[codes.dtype]:
            return codes.tensor
        return self._shifted(codes.tensor, -SHIFTS[codes.dtype], codes.dtype)

    def _shifted(self, tensor: relax.Expr, by: int, dtype: str) -> relax.Expr:
        wide = self.scope.emit(relax.op.astype(tensor, "int16"))
        shifted = self.scope.emit(relax.op.add(wide, relax.const(by, "int16")))
        return relax.op.astype(shifted, dtype)

    def codes(self, expr: relax.Expr) -> Codes | None:
        """A tensor of 8-bit integers as codes; ``None`` for a tensor of any other type."""
        value = self.value(expr)
        if value is not None:
            return value if isinstance(value, Codes) else None
        if not isinstance(expr, relax.Var) or dtype_of(expr) not in SHIFTS:
            return None
        tensor, dtype = expr, dtype_of(expr)
        if SHIFTS[dtype]:
            tensor = self.scope.emit(self._shifted(expr, SHIFTS[dtype], "uint8"))
        return Codes(tensor, dtype)

    def as_sum(self, expr: relax.Expr, for_all: bool = False) -> Sum:
        """A float32 variable as a sum to go on with.

        What several bindings read is computed first, unless this serves all of them (``for_all``)
        or it is stored already.
        """
        value = self.value(expr)
        if isinstance(value, Stored):
            return value.as_sum()
        if isinstance(value, Sum) and (for_all or self.readers.is_private(expr)):
            return value
        return Sum((Term(self.own(expr), _ONE, _ZERO),))

    def whole_sum(self, expr: relax.Expr) -> Sum | None:
        """A stored tensor that one operation reads, as the numbers that its codes are casts of."""
        value = self.value(expr)
        if not isinstance(value, Stored) or value.codes.whole is None:
            return None
        if not self.readers.is_private(expr):
            return None
        scale = np.asarray(value.encoding.scale, "float32")
        return Sum((Term(value.codes.whole, scale, _ZERO, most=MAX_CODE),))

    def coded(self, expr: relax.Expr, encoding: Encoding) -> Codes:
        """A float32 variable in this encoding: what is stored so already, or quantised now."""
        value = self.value(expr)
        if isinstance(value, Stored) and value.encoding == encoding:
            return value.codes
        key = (expr, encoding)
        if key not in self._coded:
            self._coded[key] = self._newly_coded(expr, encoding)
        return self._coded[key]

    def _newly_coded(self, expr: relax.Expr, encoding: Encoding) -> Codes:
        function = self.function(expr)
        coded = None if function is None else function.coded(encoding)
        if coded is not None and not self._is_arithmetic(expr, encoding):
            found = Codes(self.scope.emit(look_up(coded.codes, coded.values)), "uint8")
        else:
            total = self.as_sum(expr, for_all=self.readers.wanted(expr) == encoding)
            found = self._quantized(total, encoding)
        if coded is not None:
            self._functions[found.tensor] = coded
        return found

    def _is_arithmetic(self, expr: relax.Expr, encoding: Encoding) -> bool:
        """Whether bounds of codes say all, or a product and a clip do that are cheaper."""
        total = self._deferred(expr)
        if total is None:
            return False
        return not self._looks_up or total.bounds_of_codes(encoding) is not None

    def _deferred(self, expr: relax.Expr) -> Sum | None:
        """The sum that a variable stands for; ``None`` for one that was not deferred as one."""
        value = self.value(expr)
        if isinstance(value, Stored):
            return value.as_sum()
        return value if isinstance(value, Sum) else None

    def function(self, expr: relax.Expr) -> CodeFunction | None:
        """Real numbers as a function of one tensor of codes; ``None`` for all others."""
        total = self._deferred(expr)
        if total is not None:
            return self._function_of_sum(total)
        return self._functions.get(expr) if isinstance(expr, relax.Var) else None

    def _made_by(self, value: relax.Expr) -> CodeFunction | None:
        if isinstance(value, relax.Var):
            return self.function(value)
        if op_name(value) not in POINTWISE:
            return None
        operands = [self.function(each) or number(each) for each in value.args]
        return None if any(each is None for each in operands) else applied(value, operands)

    def _function_of_sum(self, total: Sum) -> CodeFunction | None:
        values, tensor = total.of_codes(CODES), total.terms[0].tensor
        if values is None or not isinstance(tensor, relax.Var):
            return None
        inner = self._functions.get(tensor) or CodeFunction(tensor, CODES)
        return CodeFunction(inner.codes, values[inner.values])

    def _quantized(self, total: Sum, encoding: Encoding) -> Codes:
        emit = self.scope.emit
        bounds = total.bounds_of_codes(encoding)
        if bounds is None:
            tensor, whole = total.codes(emit, encoding)
            return Codes(tensor, "uint8", whole)
        tensor, (low, high) = total.terms[0].tensor, bounds
        if low > 0:
            tensor = emit(relax.op.maximum(tensor, relax.const(low, "uint8")))
        if high < MAX_CODE:
            tensor = emit(relax.op.minimum(tensor, relax.const(high, "uint8")))
        return Codes(tensor, "uint8")
