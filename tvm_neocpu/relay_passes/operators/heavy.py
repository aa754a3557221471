"""The operators whose arithmetic decides a network's time, and how much of it a call has.

Each output element of theirs is a sum of products. Elementwise operations, pools, norms and data
movement are not among them: memory bounds these, and TVM's code for them is vectorised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.operators.call_form import MultiplyAdds, Shape


def flops_of(call: relax.Call, multiply_adds: MultiplyAdds) -> int | None:
    """Arithmetic operations of a call, a multiply-add counted as two; ``None`` for unknown shapes.

    ``multiply_adds`` counts those of the call's operator.
    """
    arguments = [part for arg in call.args for part in _tensors(arg)]
    shapes = [static_shape(tensor) for tensor in (*arguments, call)]
    known = [shape for shape in shapes if shape is not None]
    return 2 * multiply_adds(call, known) if len(known) == len(shapes) else None


def _tensors(argument: relax.Expr) -> list[relax.Expr]:
    """The argument itself, or the fields of a tuple."""
    return list(argument.fields) if isinstance(argument, relax.Tuple) else [argument]


def _convolution(call: relax.Call, shapes: list[Shape]) -> int:
    """Each output element reads the whole weight of its output channel."""
    _, weight, out = shapes
    return math.prod(out) * _without(weight, call, "O")


def _transposed_convolution(call: relax.Call, shapes: list[Shape]) -> int:
    """Each input element is spread over the whole weight of its input channel."""
    data, weight, _ = shapes
    return math.prod(data) * _without(weight, call, "I")


def _without(weight: Shape, call: relax.Call, axis: str) -> int:
    """The elements of a weight for one index of ``axis`` (of its kernel layout)."""
    return math.prod(weight) // weight[str(call.attrs.kernel_layout).index(axis)]


def _matmul(_: relax.Call, shapes: list[Shape]) -> int:
    data, _weight, out = shapes
    return math.prod(out) * data[-1]


def _batched(call: relax.Call, shapes: list[Shape]) -> int:
    left, _right, out = shapes
    return math.prod(out) * left[int(call.attrs["left_axes"][-1])]


def _attention(_: relax.Call, shapes: list[Shape]) -> int:
    """Query, key, value of (batch, length, heads, size): two matrix products for each head."""
    (batch, queries, heads, size), (_, keys, *_), (*_, out) = shapes[:3]
    return batch * heads * queries * keys * (size + out)


def _einsum(call: relax.Call, shapes: list[Shape]) -> int:
    """``"bij,bjk->bik"``: every combination of indices; 0 for one operand (a transpose, a sum)."""
    operands = shapes[:-1]
    terms = str(call.attrs.subscripts).replace(" ", "").split("->")[0].split(",")
    extents: dict[str, int] = {}
    for term, shape in zip(terms, operands, strict=True):
        # An ellipsis stands for the dimensions that the letters leave over.
        letters = [*term.replace("...", "")]
        between = range(len(shape) - len(letters))
        at = term.find("...")
        names = letters if at < 0 else [*term[:at], *map(str, reversed(between)), *term[at + 3 :]]
        for name, extent in zip(names, shape, strict=True):
            extents[name] = max(extent, extents.get(name, 1))
    return math.prod(extents.values()) * (len(operands) - 1)


# The operators that Relax has, by its name; a call form counts those of an operator of our own.
HEAVY: Mapping[str, MultiplyAdds] = {
    "relax.nn.conv1d": _convolution,
    "relax.nn.conv2d": _convolution,
    "relax.nn.conv3d": _convolution,
    "relax.nn.conv1d_transpose": _transposed_convolution,
    "relax.nn.conv2d_transpose": _transposed_convolution,
    "relax.nn.conv3d_transpose": _transposed_convolution,
    "relax.matmul": _matmul,
    "relax.neocpu.batch_matmul": _batched,
    "relax.einsum": _einsum,
    "relax.nn.attention": _attention,
    "relax.nn.attention_bias": _attention,
}
