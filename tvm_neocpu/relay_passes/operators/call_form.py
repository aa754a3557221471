"""How an operator looks in a Relax module: the third record, beside ``topi.operator``'s two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tvm import relax

from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.workload import Workload

# relax.OpPatternKind. kOutEWiseFusable: elementwise consumers may be fused, producers may not;
# kElemWise: such a consumer; kInjective: fused, but not behind those; kOpaque: never fused.
ELEMENTWISE, INJECTIVE, OUT_ELEMWISE_FUSABLE, OPAQUE = 0, 2, 4, 8

Layouts = tuple[Layout, Layout]
Shape = tuple[int, ...]
# The multiply-adds of a call, given the shapes of all its arguments and of its result.
MultiplyAdds = Callable[[relax.Call, list[Shape]], int]


@dataclass(frozen=True)
class CallForm:
    """How calls of one operator are read, given other layouts, and lowered.

    ``operator``: the name of the operator (``"conv2d"``). ``op``: Relax's name of what is called
    (``"relax.nn.conv2d"``); several forms may share it. ``read(call)`` is the workload of a call in
    any layout, ``None`` for a call that is not the operator's or that no template could take:
    unknown shapes, weights that are not constant. ``tensors(call)`` are the arguments that the
    workload's ``operands`` stand for, in their order.

    ``refusal(call)``: why ``read`` takes no workload from a call of ``op``, in a few words for
    people; ``None`` where it takes one, or where the form cannot say.

    ``multiply_adds``: the arithmetic of a call that no template takes, for the report of these;
    ``None`` where ``op`` is Relax's own, which :mod:`.heavy` counts.

    ``layouts(call)``: the layouts in which a call reads its feature maps and writes its result.
    ``alter(call, tensors, before, after)``: the call over ``tensors``, whose feature maps are
    stored in ``before``, with its result in ``after``; ``None`` for an operator whose tensors have
    no layout. ``decides``: whether each call is a choice of the plan; layout transforms follow
    from the others' choices. ``pattern``: which neighbours TVM may fuse into its function.
    """

    operator: str
    op: str
    read: Callable[[relax.Call], Workload | None]
    tensors: Callable[[relax.Call], tuple[relax.Expr, ...]] = lambda call: tuple(call.args)
    refusal: Callable[[relax.Call], str | None] = lambda call: None
    multiply_adds: MultiplyAdds | None = None
    layouts: Callable[[relax.Call], Layouts] = lambda call: (NCHW, NCHW)
    alter: Callable[[relax.Call, Sequence[relax.Expr], Layout, Layout], relax.Expr] | None = None
    decides: bool = True
    pattern: int = OUT_ELEMWISE_FUSABLE


def noted_layouts(call: relax.Call) -> Layouts:
    """The ``layouts`` of an operator of our own that notes both as attributes."""
    before, after = (Layout.parse(str(call.attrs[n])) for n in ("data_layout", "out_layout"))
    return before, after


def convolution_multiply_adds(_: relax.Call, shapes: list[Shape]) -> int:
    """The ``multiply_adds`` of a call of (data, OIHW weight, ...): its products alone."""
    weight, out = shapes[1], shapes[-1]
    return prod(out) * prod(weight[1:])
