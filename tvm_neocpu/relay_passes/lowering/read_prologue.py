"""Which elementwise operations in front of a convolution its template can do on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, te
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, operands, static_shape
from tvm_neocpu.topi.schedule import prologue
from tvm_neocpu.topi.schedule.prologue import STEP_OPERATORS

# What a variable is bound to; ``None`` for a parameter.
Definition = Callable[[relax.Var], relax.Expr | None]


@dataclass(frozen=True)
class Prologue:
    """``parts``, concatenated by channels, then ``steps``: (operator, its other operand)."""

    parts: tuple[relax.Expr, ...]
    steps: tuple[tuple[str, relax.Expr | None], ...]

    @property
    def operands(self) -> tuple[relax.Expr, ...]:
        """Of the steps that have one, in their order."""
        return tuple(operand for _, operand in self.steps if operand is not None)

    def compute(self, parts: Sequence[te.Tensor], operands: Sequence[te.Tensor]) -> te.Tensor:
        """The template's data; what lies in memory as it is stays a placeholder."""
        if len(parts) == 1 and not self.steps:
            return parts[0]
        left = iter(operands)
        steps = [(name, None if operand is None else next(left)) for name, operand in self.steps]
        return prologue.compute(parts, steps)


def read_prologue(
    data: relax.Expr, definition: Definition, uses: Mapping[relax.Var, int]
) -> Prologue | None:
    """The chain of multiplications, additions and ReLUs, each with one reader, that ends in data.

    Where the chain starts at a value that it alone reads, it is the epilogue of what made that
    value, unless that is a concat or the network's input: ``None``.
    """
    steps: list[tuple[str, relax.Expr | None]] = []
    while uses.get(data) == 1 and (step := _step(data, definition(data))) is not None:
        data, *found = step
        steps.insert(0, (found[0], found[1]))
    if not isinstance(data, relax.Var):
        return None
    value = definition(data)
    parts = _concat_parts(value) if uses.get(data) == 1 else None
    if parts is not None:
        return Prologue(parts, tuple(steps))
    if not steps or (uses.get(data) == 1 and value is not None):
        return None
    return Prologue((data,), tuple(steps))


def _step(
    result: relax.Var, value: relax.Expr | None
) -> tuple[relax.Expr, str, relax.Expr | None] | None:
    """What a step reads, its operator and its other operand; ``None`` if it is no step."""
    name = op_name(value)
    if name not in STEP_OPERATORS or dtype_of(result) != "float32":
        return None
    first, *others = operands(value)
    if not others:
        return first, name, None
    for data, operand in ((first, others[0]), (others[0], first)):
        if static_shape(data) == static_shape(result) and _broadcasts(operand, result):
            return data, name, operand
    return None


def _broadcasts(operand: relax.Expr, result: relax.Expr) -> bool:
    """Whether an operand is one value for all pixels of the channel: constants, SE's gates."""
    shape, whole = static_shape(operand), static_shape(result)
    if shape is None or whole is None or not isinstance(operand, relax.Var | GenericConst):
        return False
    aligned = (*(1,) * (len(whole) - len(shape)), *shape)
    return len(shape) <= len(whole) and aligned[2:4] == (1, 1)


def _concat_parts(value: relax.Expr | None) -> tuple[relax.Expr, ...] | None:
    """The feature maps that a concat over channels joins."""
    if op_name(value) != "relax.concat" or not isinstance(value.args[0], relax.Tuple):
        return None
    parts = tuple(value.args[0])
    shapes = [static_shape(part) for part in parts]
    if value.attrs.axis is None or None in shapes or dtype_of(parts[0]) != "float32":
        return None
    return parts if int(value.attrs.axis) % len(shapes[0]) == 1 else None
