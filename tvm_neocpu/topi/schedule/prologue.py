"""What a template's data goes through before the template reads it: a concat, a scale, a ReLU.

DenseNet and the pre-activation ResNet normalise in front of a convolution, EfficientNet gates
there: with a ReLU in between no weight can take that over. As a stage of the template it is
computed per chunk, where padding is, instead of in a pass over the tensor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from tvm import te, tirx
from tvm.ir import Expr
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.topi.image.depth import PLACES_KEY, ROWS, WINDOWS
from tvm_neocpu.topi.schedule import steps

PROLOGUE, PARTS_KEY = "prologue", "neocpu.prologue_parts"

# (operator, its other operand); an operand broadcasts over pixels, from the right.
Operation = tuple[str, te.Tensor | None]

# By operator, of the value and the other operand; zero stands in where there is none.
_OPERATIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "multiply": lambda value, operand: value * operand,
    "add": lambda value, operand: value + operand,
    # Of a NaN and another operand TVM's max takes the second one.
    "relu": lambda value, zero: tirx.Max(zero, value),
}


def compute(parts: Sequence[te.Tensor], prologue: Sequence[Operation]) -> te.Tensor:
    """The parts, concatenated over their second axis, after every operation in turn.

    ``parts``: (N, C_i, H, W) or (N, C_i/x, H, W, x). Returns (N, C, H, W) or (N, C/x, H, W, x).
    """
    ends = list(accumulate(int(part.shape[1]) for part in parts))
    zero = tirx.const(0, parts[0].dtype)

    def element(n, c, *pixel):
        value = parts[-1](n, c - (ends[-2] if len(ends) > 1 else 0), *pixel)
        for at in range(len(parts) - 2, -1, -1):
            start = ends[at - 1] if at else 0
            value = tirx.if_then_else(c < ends[at], parts[at](n, c - start, *pixel), value)
        for operator, operand in prologue:
            other = zero if operand is None else _broadcast(operand, (n, c, *pixel))
            value = _OPERATIONS[operator](value, other)
        return value

    shape = (parts[0].shape[0], ends[-1], *parts[0].shape[2:])
    return te.compute(shape, element, name=PROLOGUE, attrs={PARTS_KEY: len(parts)})


def is_computed(data: te.Tensor) -> bool:
    """Whether a template's data come from a computation, such as a prologue, not from memory.

    Computed tensors have one class of operation, stored ones several. Windows without zeros are
    addresses into stored data, and count as stored.
    """
    return isinstance(data.op, te.ComputeOp) and PLACES_KEY not in data.op.attrs


def inline_prologue(sch: Schedule) -> None:
    """Inline the prologue into the stage that reads it, which takes over the note of its parts.

    # prologue = max(x * s + t, 0); pad = prologue or 0  ->  pad = max(x * s + t, 0) or 0
    """
    for name in (WINDOWS, ROWS):
        images = steps.find_block(sch, name)
        if images is not None:
            sch.compute_inline(images)
    prologue = steps.find_block(sch, PROLOGUE)
    if prologue is None:
        return
    parts = sch.get(prologue).annotations[PARTS_KEY]
    (reader,) = sch.get_consumers(prologue)
    sch.compute_inline(prologue)
    sch.annotate(reader, PARTS_KEY, parts)


def has_parts(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a prologue was inlined into this block."""
    return PARTS_KEY in sch.get(block).annotations


def take_parts(sch: Schedule, block: SBlockRV) -> int:
    """Of how many parts the prologue in this block consists; 0 without one. Removes the note."""
    parts = sch.get(block).annotations.get(PARTS_KEY)
    if parts is None:
        return 0
    sch.unannotate(block, PARTS_KEY)
    return int(parts)


def _broadcast(operand: te.Tensor, at: tuple[Expr, ...]) -> Expr:
    """The operand's element at a position of a larger tensor."""
    rank = len(operand.shape)
    aligned = zip(operand.shape, at[len(at) - rank :], strict=True)
    return operand(*(0 if int(extent) == 1 else index for extent, index in aligned))
