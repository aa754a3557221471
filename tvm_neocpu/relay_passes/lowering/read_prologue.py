"""What stands in front of a convolution that its template computes as it reads.

y = multiply(x, s)
y = add(y, t)                 ->    parts (x,), operations (multiply s, add t, relu)
z = conv2d(relu(y), W)

y = reshape(take(x, images))  ->    parts (x,), the depth that says which images
z = conv2d(y, W)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, te
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import (
    dtype_of,
    is_foldable,
    op_name,
    operands,
    static_shape,
)
from tvm_neocpu.relay_passes.layouts.depth_windows import read_side_by_side
from tvm_neocpu.relay_passes.operators.new.depth_rows import read_depth_rows
from tvm_neocpu.topi.image.depth import Depth, depth_rows, depth_windows
from tvm_neocpu.topi.math.half_precision import BITS
from tvm_neocpu.topi.schedule import prologue

# The value that a variable is bound to; ``None`` for a parameter.
Definition = Callable[[relax.Var], relax.Expr | None]

# (operation, its other operand); ``None`` for an operation with one operand.
Operation = tuple[str, relax.Expr | None]

# By Relax's name, what a template calls the operation.
OPERATIONS = {"relax.multiply": "multiply", "relax.add": "add", "relax.nn.relu": "relu"}


@dataclass(frozen=True)
class Prologue:
    """The ``parts`` are concatenated by channels; each operation is applied to the result.

    With ``depth`` the one part has the images of volumes, some of which lie side by side then, or,
    with ``in_rows``, row by row.
    """

    parts: tuple[relax.Expr, ...]
    operations: tuple[Operation, ...]
    depth: Depth | None = None
    in_rows: bool = False

    @property
    def operands(self) -> tuple[relax.Expr, ...]:
        """The other operands of the operations that have one, in order."""
        return tuple(operand for _, operand in self.operations if operand is not None)

    @property
    def scheme(self) -> tuple[int, tuple[tuple[str, bool], ...], Depth | None, bool]:
        """What it computes, but for the tensors: how many parts, which operations on what."""
        operations = tuple((name, operand is not None) for name, operand in self.operations)
        return len(self.parts), operations, self.depth, self.in_rows

    def compute(self, parts: Sequence[te.Tensor], operands: Sequence[te.Tensor]) -> te.Tensor:
        """The template's data; one part without operations is that part itself."""
        if self.depth is not None:
            images = depth_rows if self.in_rows else depth_windows
            return images(parts[0], self.depth)
        if len(parts) == 1 and not self.operations:
            return parts[0]
        left = iter(operands)
        return prologue.compute(
            parts,
            [(name, None if other is None else next(left)) for name, other in self.operations],
        )


def read_prologue(
    data: relax.Expr, definition: Definition, uses: Mapping[relax.Var, int]
) -> Prologue | None:
    """What ends in ``data``: multiplications, additions and ReLUs, or a stack of images.

    Others may read such a stack, too: nothing is copied. Each result of a chain has one reader.
    ``None`` if the chain is empty, and if nothing else reads the value that it starts from: then it
    is the epilogue of the operation that made the value. A concat and a parameter take no epilogue,
    so that their chains are prologues.
    """
    windows = read_side_by_side(data, definition)
    if windows is not None:
        images, depth = windows
        return Prologue((images,), (), depth)
    rows = read_depth_rows(definition(data) if isinstance(data, relax.Var) else None)
    if rows is not None:
        images, depth = rows
        return Prologue((images,), (), depth, in_rows=True)
    operations: list[Operation] = []
    while uses.get(data) == 1 and (found := _operation(data, definition(data))) is not None:
        data, operation = found
        operations.insert(0, operation)
    if not isinstance(data, relax.Var):
        return None
    value = definition(data)
    parts = _concat_parts(value) if uses.get(data) == 1 else None
    if parts is not None:
        return Prologue(parts, tuple(operations))
    if not operations or (uses.get(data) == 1 and value is not None):
        return None
    return Prologue((data,), tuple(operations))


def _operation(result: relax.Var, value: relax.Expr | None) -> tuple[relax.Expr, Operation] | None:
    """(the data that it reads, the operation); ``None`` if a prologue cannot have it."""
    name = OPERATIONS.get(op_name(value))
    if name is None or not is_foldable(result):
        return None
    first, *others = operands(value)
    if not others:
        return first, (name, None)
    for data, operand in ((first, others[0]), (others[0], first)):
        if static_shape(data) == static_shape(result) and _broadcasts(operand, result):
            return data, (name, operand)
    return None


def _broadcasts(operand: relax.Expr, result: relax.Expr) -> bool:
    """Whether an operand has one value for all pixels of a channel: a constant, a gate of SE."""
    shape, whole = static_shape(operand), static_shape(result)
    if shape is None or whole is None or not isinstance(operand, relax.Var | GenericConst):
        return False
    aligned = (*(1,) * (len(whole) - len(shape)), *shape)
    return len(shape) <= len(whole) and aligned[2:4] == (1, 1)


def _concat_parts(value: relax.Expr | None) -> tuple[relax.Expr, ...] | None:
    """The feature maps, also stored as bf16, that a concat by channels reads; else ``None``."""
    if op_name(value) != "relax.concat" or not isinstance(value.args[0], relax.Tuple):
        return None
    parts = tuple(value.args[0])
    shapes = [static_shape(part) for part in parts]
    if value.attrs.axis is None or None in shapes:
        return None
    if not is_foldable(parts[0]) and dtype_of(parts[0]) != BITS:
        return None
    return parts if int(value.attrs.axis) % len(shapes[0]) == 1 else None
