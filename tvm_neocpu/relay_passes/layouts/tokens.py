"""Moves between an image and its tokens: (N, C, H, W), and (N, H * W, C) or (N, H, W, C).

t = permute_dims(reshape(x, (N, C, H * W)), (0, 2, 1))    # tokens of an image, or
t = permute_dims(x, (0, 2, 3, 1))

x = reshape(permute_dims(t, (0, 2, 1)), (N, C, H, W))     # an image of tokens, or
x = permute_dims(t, (0, 3, 1, 2))

Tokens of three axes and of four are reshapes of each other.
"""

from __future__ import annotations

import math

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import call_of, ints, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope

Shape = tuple[int, ...]
# Axes of a transpose by the number of axes: from an image to tokens, and back.
_TO_TOKENS = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
_TO_IMAGE = {3: (0, 2, 1), 4: (0, 3, 1, 2)}


def image_behind(scope: Scope, tokens: relax.Expr) -> relax.Expr | None:
    """The image (N, C, H, W) of which ``tokens`` are a move; ``None`` where they are none."""
    moved = _permuted(scope, _as_they_lie(scope, tokens), _TO_TOKENS)
    if moved is None:
        return None
    shape = static_shape(moved)
    if shape is not None and len(shape) == 4:
        return moved
    flat = call_of(scope.definition(moved), "relax.reshape")
    image = None if flat is None else static_shape(flat.args[0])
    if image is None or shape is None or len(image) != 4:
        return None
    return flat.args[0] if shape == (*image[:2], image[2] * image[3]) else None


def tokens_behind(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    """The tokens of which ``value`` makes an image; ``None`` where it is no such move."""
    shape = static_shape(value)
    if shape is None or len(shape) != 4:
        return None
    flat = call_of(value, "relax.reshape")
    if flat is None:
        moved = _permuted(scope, value, _TO_IMAGE)
        return None if moved is None else _as_they_lie(scope, moved)
    tokens = _permuted(scope, flat.args[0], _TO_IMAGE)
    before = None if tokens is None else static_shape(tokens)
    return tokens if before == (shape[0], shape[2] * shape[3], shape[1]) else None


def tokens_of(scope: Scope, image: relax.Expr, shape: Shape) -> relax.Expr:
    """A move that makes tokens of ``shape`` of an image; the last call is not emitted."""
    if len(shape) == 4:
        return relax.op.permute_dims(image, _TO_TOKENS[4])
    flat = scope.emit(relax.op.reshape(image, (shape[0], shape[2], shape[1])))
    return relax.op.permute_dims(flat, _TO_TOKENS[3])


def image_of(scope: Scope, tokens: relax.Expr, image: Shape) -> relax.Expr:
    """A move that makes an image of the pixels of ``image`` of tokens; the last is not emitted."""
    batch, height, width = image[0], *image[2:]
    *_, channels = static_shape(tokens) or ()
    if tokens.ty.ndim == 4:
        return relax.op.permute_dims(tokens, _TO_IMAGE[4])
    moved = scope.emit(relax.op.permute_dims(tokens, _TO_IMAGE[3]))
    return relax.op.reshape(moved, (batch, channels, height, width))


def _permuted(scope: Scope, expr: relax.Expr, axes: dict[int, Shape]) -> relax.Expr | None:
    """What a transpose by these axes reads."""
    call = call_of(scope.definition(expr), "relax.permute_dims")
    if call is None or call.attrs.axes is None:
        return None
    found = ints(call.attrs.axes)
    return call.args[0] if axes.get(len(found)) == found else None


def _as_they_lie(scope: Scope, tokens: relax.Expr) -> relax.Expr:
    """Tokens before reshapes from four axes to three and back."""
    while True:
        call = call_of(scope.definition(tokens), "relax.reshape")
        shapes = (static_shape(tokens), None if call is None else static_shape(call.args[0]))
        if call is None or not _same_tokens(*shapes):
            return tokens
        tokens = call.args[0]


def _same_tokens(first: Shape | None, second: Shape | None) -> bool:
    if first is None or second is None or not {len(first), len(second)} <= {3, 4}:
        return False
    ends = (first[0], first[-1]) == (second[0], second[-1])
    return ends and math.prod(first) == math.prod(second)


__all__ = ["image_behind", "image_of", "tokens_behind", "tokens_of"]
