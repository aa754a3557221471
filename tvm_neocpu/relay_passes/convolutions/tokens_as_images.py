"""Dense layers beside images, as 1x1 convolutions of the image: fewer channels move.

A move between an image and its tokens goes where its tensor has fewest channels, past dense layers
and elementwise operations. These then run in the convolutions' blocks, fused as they are::

    t = tokens(conv2d(x))                    y = conv2d(gelu(conv2d(x)), w as 1x1)
    y = matmul(gelu(t), w)             ->    y = tokens(y)    # 256 -> 32 channels: an eighth moves

    x = image(matmul(t, w) + b)        ->    x = conv2d(image(t), w as 1x1) + b    # 32 -> 256

So are the feed-forward layers of PVT-v2 and SegFormer, with a depthwise convolution inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import is_foldable, op_name, operands, static_shape, variables
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY, UNARY
from tvm_neocpu.relay_passes.layouts.tokens import (
    image_behind,
    image_of,
    tokens_behind,
    tokens_of,
)
from tvm_neocpu.relay_passes.operators.dense import dense_workload

# A convolution of fewer channels fills no vector.
MIN_CHANNELS = 8


@dataclass(frozen=True)
class TokensAsImages:
    """Moves to tokens and back stand where fewest channels move, or nowhere.

    Needs: weights are constants; linear operations are folded (their rules know ``matmul``).
    Leaves: 1x1 convolutions and elementwise operations over images for those over tokens.
    """

    name: ClassVar[str] = "tokens-as-images"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, lambda scope: _Rewriting(scope).run())


class _Rewriting:
    """One region. ``images``: the image of each variable whose tokens it holds."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.images: dict[relax.Var, relax.Expr] = {}
        self.values = {each.var: each.value for each in scope.region.bindings}

    def run(self) -> None:
        scope = self.scope
        for binding in scope.region.bindings:
            var, value = binding.var, binding.value
            image = image_behind(scope, var if var in self.images else value)
            if image is not None:
                self.images[var] = image
            replaced = self._image_again(value)
            if replaced is None:
                replaced = self._over_image(var, value)
            if replaced is None:
                scope.keep(binding, value)
            else:
                scope.bind(var, replaced)

    def _image_again(self, value: relax.Expr) -> relax.Expr | None:
        """For an image of tokens: the layers before it over an image with fewer channels."""
        tokens, shape = tokens_behind(self.scope, value), static_shape(value)
        if not isinstance(tokens, relax.Var) or shape is None or not _is_image(shape):
            return None
        chain = list(self._layers_before(tokens))
        widths = [self._moved_channels(each, shape) for each in (tokens, *map(_data, chain))]
        best = min(range(len(widths)), key=lambda at: widths[at])
        if best == 0 and widths[0] > 0:
            return None
        start = tokens if best == 0 else _data(chain[best - 1])
        image = self._image_of(start, shape)
        if image is None:
            image = self.scope.emit(image_of(self.scope, start, shape))
        for layer in reversed(chain[:best]):
            image = self.scope.emit(_layer_of_image(layer, {_data(layer): image}))
        return image

    def _layers_before(self, tokens: relax.Var) -> Iterator[relax.Expr]:
        """Layers of one tensor each, the last one first, that make tokens for nobody else."""
        while self.scope.region.uses[tokens] == 1 or tokens in self.images:
            value = self.values.get(tokens)
            if value is None or not _is_layer(value) or len(set(variables(value))) != 1:
                return
            yield value
            tokens = _data(value)

    def _moved_channels(self, tokens: relax.Var, shape: tuple[int, ...]) -> int:
        """Channels that move where an image is made of these tokens: none if they are of one."""
        if self._image_of(tokens, shape) is not None:
            return 0
        return int(static_shape(tokens)[-1])

    def _image_of(self, tokens: relax.Var, shape: tuple[int, ...]) -> relax.Expr | None:
        """The image of these tokens, if its sides are those of ``shape``."""
        image = self.images.get(tokens)
        return image if image is not None and static_shape(image)[2:] == shape[2:] else None

    def _over_image(self, var: relax.Var, value: relax.Expr) -> relax.Expr | None:
        """For a layer over tokens of an image: that layer over the image, and tokens of it."""
        if not self._goes_with_its_image(value):
            return None
        shape = static_shape(value)
        image = self.scope.emit(_layer_of_image(value, self.images))
        self.images[var] = image
        return tokens_of(self.scope, image, shape)

    def _goes_with_its_image(self, value: relax.Expr) -> bool:
        """Whether all that it reads are tokens of images that nobody else wants as tokens."""
        read = set(variables(value))
        if not read or not _is_layer(value) or not read <= self.images.keys():
            return False
        sizes = {static_shape(self.images[each])[2:] for each in read}
        return len(sizes) == 1 and _is_narrowing(value) and all(map(self._moves_on, read))

    def _moves_on(self, tokens: relax.Var) -> bool:
        """Whether every reader of tokens of an image can read the image."""
        region = self.scope.region
        readers = region.readers.get(tokens, ())
        inside = sum(list(variables(each.value)).count(tokens) for each in readers)
        leaves = inside < region.uses[tokens]
        return not leaves and all(self._reads_images(each.var) for each in readers)

    def _reads_images(self, reader: relax.Var, depth: int = 8) -> bool:
        """Whether a layer reads nothing but tokens of images, by way of other layers too."""
        value = self.values[reader]
        if not _is_layer(value) or not _is_narrowing(value) or not depth:
            return False
        return all(
            each in self.images or (each in self.values and self._reads_images(each, depth - 1))
            for each in set(variables(value))
        )


def _is_layer(value: relax.Expr) -> bool:
    """Whether it is a dense layer, or elementwise with constants for all tokens alike."""
    shape = static_shape(value) if op_name(value) else None
    if shape is None or len(shape) not in (3, 4) or not is_foldable(value):
        return False
    if dense_workload(value) is not None:
        channels = value.args[1].value.shape
        return min(map(int, channels)) >= MIN_CHANNELS
    if op_name(value) not in UNARY | BINARY:
        return False
    return all(_is_alike(arg, shape) for arg in operands(value))


def _is_alike(arg: relax.Expr, shape: tuple[int, ...]) -> bool:
    """Whether an operand has the tokens' shape, or is one number, or one for each channel."""
    if isinstance(arg, relax.Var):
        return static_shape(arg) == shape
    if not isinstance(arg, GenericConst):
        return True
    array = array_of(arg)
    return array is not None and (array.size == 1 or array.size == array.shape[-1] == shape[-1])


def _is_narrowing(value: relax.Expr) -> bool:
    """Whether a layer's result has no more channels than what it reads."""
    return bool(static_shape(value)[-1] <= static_shape(_data(value))[-1])


def _is_image(shape: tuple[int, ...]) -> bool:
    return shape[2] * shape[3] > 1


def _data(layer: relax.Expr) -> relax.Var:
    return next(variables(layer))


def _layer_of_image(layer: relax.Expr, images: dict[relax.Var, relax.Expr]) -> relax.Expr:
    """The same layer over (N, C, H, W): 1x1 kernels, constants (C, 1, 1); not emitted."""
    if dense_workload(layer) is not None:
        kernel = np.ascontiguousarray(layer.args[1].value.numpy().T)[:, :, None, None]
        return relax.op.nn.conv2d(images[_data(layer)], constant_of(kernel))
    args = [_over_channels(arg, images) for arg in operands(layer)]
    return relax.Call(layer.op, args, layer.attrs, layer.ty_args)


def _over_channels(arg: relax.Expr, images: dict[relax.Var, relax.Expr]) -> relax.Expr:
    if isinstance(arg, relax.Var):
        return images[arg]
    array = array_of(arg) if isinstance(arg, GenericConst) else None
    if array is None:
        return arg
    return constant_of(array.reshape((-1, 1, 1) if array.size > 1 else ()))


__all__ = ["TokensAsImages"]
