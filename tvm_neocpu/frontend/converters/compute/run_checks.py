"""What a run has to find, or it fails with a line that names the node and what it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.core.run_check import check_name
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node

# A number as TVM prints it.
_NUMBER = re.compile(r"T\.int64\((-?\d+)\)")


def require(node: Node, conditions: Sequence[tirx.Expr | bool]) -> None:
    """Let a run fail where a condition does not hold, and name the node and the condition.

    Those that are known to hold cost nothing.

    Raises UnsupportedOperatorError where one is known not to hold.
    """
    unknown = [condition for condition in conditions if not node.extents.proves(condition)]
    if any(isinstance(condition, bool) for condition in unknown):
        raise UnsupportedOperatorError("the extents of its inputs do not fit")
    if not unknown:
        return
    pairs = [_pair(condition) for condition in unknown]
    zero = tirx.const(0, "int64")
    found = [*(found for found, _ in pairs), zero]
    vector = node.builder.emit_te(vector_of, found, "int64", primfunc_name_hint="checks")
    name = check_name(node.label, [_NUMBER.sub(r"\1", str(each)) for each in unknown])
    expected = [*(expected for _, expected in pairs), tirx.Var(name, "int64")]
    shape = node.emit(relax.op.tensor_to_shape(vector))
    node.builder.match_cast(shape, relax.ShapeType(expected))


def _pair(condition: tirx.Expr) -> tuple[tirx.Expr, int]:
    """What a run computes, and the number that it has to be."""
    if isinstance(condition, tirx.EQ) and isinstance(condition.b, tirx.IntImm):
        return condition.a, int(condition.b)
    return tirx.Cast("int64", condition), 1


def require_within(node: Node, numbers: Sequence[Extent], most: Extent | None = None) -> None:
    """Let a run fail where a number is negative, or above ``most``."""
    zero = tirx.const(0, "int64")
    computed = [number for number in numbers if not isinstance(number, int)]
    conditions: list[tirx.Expr] = [number >= zero for number in computed]
    if most is not None:
        conditions += [number <= as_expr(most) for number in computed]
    require(node, conditions)


def vector_of(values: Sequence[tirx.Expr], dtype: str) -> te.Tensor:
    """A tensor of these numbers."""

    def element(at: tirx.Var) -> tirx.Expr:
        chosen = tirx.const(0, "int64")
        for place, value in enumerate(values):
            chosen = tirx.Select(at == place, tirx.Cast("int64", value), chosen)
        return tirx.Cast(dtype, chosen)

    return te.compute((len(values),), element, name="numbers")
