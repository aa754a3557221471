"""The algebra behind :class:`FoldParallelBranches`: a sum of convolutions of one tensor as one.

``x * W1 + x * W2 = x * (W1 + W2)`` once both kernels have the same taps. A kernel is enlarged with
zeros, and its padding with it, so that every tap stays over the same pixel::

    1x1, padding 0      0 0 0                 1x3, padding (0, 1)     0 0 0
          w       ->    0 w 0   padding 1          a b c        ->    a b c   padding 1
                        0 0 0                                         0 0 0

The identity is a 1x1 kernel of ones and zeros (Ding et al. 2021, "RepVGG", section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_neocpu.relay_passes.linear.ops import Affine, Conv, LinearOp, spread

Bias = np.ndarray


@dataclass(frozen=True, eq=False)
class Branch:
    """``y = op(x) + shift``: a convolution, or ``scale * x`` where ``op`` is affine.

    ``scale`` and ``shift`` are vectors over the output's channels.
    """

    op: Conv | Affine
    shift: Bias


@dataclass(frozen=True)
class _Span:
    """The taps along one axis: ``count`` of them, ``step`` pixels apart, the first at ``-start``.

    ``after`` is the padding behind the image.
    """

    count: int
    step: int
    start: int
    after: int

    @property
    def last(self) -> int:
        """The last tap's offset from the output's own pixel."""
        return (self.count - 1) * self.step - self.start


def as_branch(ops: Sequence[LinearOp], channels: int) -> Branch | None:
    """A simplified run of linear operations as a branch; ``None`` if it is more than one.

    ``channels`` are those of its output.
    """
    if not ops:
        return Branch(Affine(np.ones(channels), np.zeros(channels), 1), np.zeros(channels))
    first, *rest = ops
    if isinstance(first, Affine) and not rest and first.axis in (None, 1):
        scale, shift = spread(first.scale, channels), spread(first.shift, channels)
        return Branch(Affine(scale, np.zeros(channels), 1), shift)
    if not isinstance(first, Conv) or len(rest) > 1:
        return None
    if not rest:
        return Branch(first, np.zeros(channels))
    (shift,) = rest
    if not isinstance(shift, Affine) or shift.scales or shift.axis not in (None, 1):
        return None
    return Branch(first, spread(shift.shift, channels))


def merge_branches(branches: Sequence[Branch]) -> list[tuple[Branch, list[int]]]:
    """Sums of branches, each with the numbers of those that it is made of; every one is in one.

    A branch joins the first convolution, in the order of their sizes, that grows by no more than
    the branch itself: 1x1 into 3x3, but not 1x3 into 3x1, whose union of nine taps is more work
    than the six of both. An identity has no weights, so it joins only where its tap is there.
    """
    order = sorted(range(len(branches)), key=lambda number: -_weights(branches[number]))
    merged: list[tuple[Branch, list[int]]] = []
    for number in order:
        for place, (taken, numbers) in enumerate(merged):
            union = add_branches(taken, branches[number])
            if union is not None:
                merged[place] = (union, [*numbers, number])
                break
        else:
            merged.append((branches[number], [number]))
    return merged


def add_branches(one: Branch, other: Branch) -> Branch | None:
    """The sum of a convolution and a branch of no more weights, as one convolution.

    ``None`` if they have no kernel in common, or if the sum has more weights than both.
    """
    if not isinstance(one.op, Conv):
        return None
    conv = other.op if isinstance(other.op, Conv) else _identity(other.op, one.op)
    if conv is None or conv.stride != one.op.stride or conv.groups != one.op.groups:
        return None
    rows = _union(_span(one.op, 0), _span(conv, 0))
    columns = _union(_span(one.op, 1), _span(conv, 1))
    if rows is None or columns is None:
        return None
    weights = one.op.weight.shape[0] * one.op.weight.shape[1] * rows.count * columns.count
    if weights > _weights(one) + _weights(other):
        return None
    window = replace(
        one.op,
        padding=(rows.start, columns.start, rows.after, columns.after),
        dilation=(rows.step, columns.step),
    )
    weight = _enlarged(one.op, rows, columns) + _enlarged(conv, rows, columns)
    return Branch(replace(window, weight=weight), one.shift + other.shift)


def _weights(branch: Branch) -> int:
    return branch.op.weight.size if isinstance(branch.op, Conv) else 0


def _identity(scale: Affine, like: Conv) -> Conv | None:
    """``scale * x`` as a 1x1 convolution in groups; its output has the shape of its input."""
    outputs, inputs = like.weight.shape[:2]
    if like.stride != (1, 1) or outputs != inputs * like.groups:
        return None
    weight = np.zeros((outputs, inputs, 1, 1))
    channel = np.arange(outputs)
    weight[channel, channel % inputs, 0, 0] = scale.scale
    return replace(like, weight=weight, padding=(0, 0, 0, 0), dilation=(1, 1))


def _span(conv: Conv, axis: int) -> _Span:
    count, step = conv.weight.shape[2 + axis], conv.dilation[axis]
    return _Span(count, step if count > 1 else 1, conv.padding[axis], conv.padding[axis + 2])


def _union(one: _Span, other: _Span) -> _Span | None:
    """The shortest span with the taps of both; ``None`` if their taps do not fall together.

    Both give outputs of the same size. The padding behind is that of the span that reaches further:
    it gives that size for any image.
    """
    if one.count > 1 and other.count > 1 and one.step != other.step:
        return None
    step = one.step if one.count > 1 else other.step
    if (one.start - other.start) % step:
        return None
    further = one if one.last >= other.last else other
    start = max(one.start, other.start)
    return _Span((further.last + start) // step + 1, step, start, further.after)


def _enlarged(conv: Conv, rows: _Span, columns: _Span) -> np.ndarray:
    """The kernel inside zeros, its taps where ``rows`` and ``columns`` have them."""
    outputs, inputs, height, width = conv.weight.shape
    weight = np.zeros((outputs, inputs, rows.count, columns.count))
    top = (rows.start - conv.padding[0]) // rows.step
    left = (columns.start - conv.padding[1]) // columns.step
    weight[:, :, top : top + height, left : left + width] = conv.weight
    return weight


__all__ = ["Branch", "add_branches", "as_branch", "merge_branches"]
