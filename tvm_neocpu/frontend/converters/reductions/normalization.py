"""Batch, layer, RMS and group normalisation, LRN and MeanVarianceNormalization, in every attribute.

A network at inference gets Relax's own ``batch_norm`` and ``layer_norm``, which passes fold. Sums
of float16 are taken in float32.
"""

from __future__ import annotations

import math

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

# What the function body of MeanVarianceNormalization adds to the deviation.
_TINY = 1e-9


def batch_normalization(node: Node) -> relax.Expr:
    """``(N, C, ...)``, scale, bias, mean and variance of C; in training the new statistics too."""
    if not node.attributes.get("spatial", 1):
        return _normalized_alone(node)
    if node.opset < 14 and node.outputs > 1:
        raise UnsupportedOperatorError("training before opset 14")
    wide = _wide(node)
    data, scale, bias, mean, variance = (_as(node, place, wide) for place in range(5))
    if node.attributes.get("training_mode", 0):
        return _trained(node, data, scale, bias, wide)
    normal = relax.op.nn.batch_norm(
        data,
        scale,
        bias,
        mean,
        variance,
        axis=1,
        epsilon=node.attributes["epsilon"],
        training=False,
    )
    # A variable: TVM's converters take another expression for a constant.
    result = node.emit(relax.TupleGetItem(node.emit(normal), 0))
    return result if wide == node.dtype else relax.op.astype(result, node.dtype)


def _normalized_alone(node: Node) -> relax.Expr:
    """Below opset 9, ``spatial=0``: parameters of (C, H, W), each element has its own."""
    if node.outputs > 1:
        raise UnsupportedOperatorError("training with spatial 0")
    wide = _wide(node)
    data, scale, bias, mean, variance = (_as(node, place, wide) for place in range(5))
    centered = node.emit(relax.op.subtract(data, mean))
    normal = _divided(node, centered, variance, node.attributes["epsilon"], wide)
    scaled = node.emit(relax.op.multiply(normal, scale))
    return relax.op.astype(node.emit(relax.op.add(scaled, bias)), node.dtype)


def _trained(
    node: Node, data: relax.Expr, scale: relax.Expr, bias: relax.Expr, wide: str
) -> relax.Expr:
    axes = [axis for axis in range(node.rank) if axis != 1]
    mean, centered, variance = _moments(node, data, axes)
    normal = _divided(node, centered, variance, node.attributes["epsilon"], wide)
    affine = [1, -1, *(1 for _ in range(node.rank - 2))]
    scaled = relax.op.multiply(normal, node.emit(relax.op.reshape(scale, affine)))
    result = node.emit(relax.op.add(node.emit(scaled), node.emit(relax.op.reshape(bias, affine))))
    result = node.emit(relax.op.astype(result, node.dtype))
    if node.outputs == 1:
        return result
    kept = relax.const(node.attributes["momentum"], wide)
    new = relax.const(1 - node.attributes["momentum"], wide)
    running = [result]
    for place, found in ((3, mean), (4, variance)):
        old = relax.op.multiply(_as(node, place, wide), kept)
        part = relax.op.multiply(node.emit(relax.op.reshape(found, [-1])), new)
        total = node.emit(relax.op.add(node.emit(old), node.emit(part)))
        running.append(node.emit(relax.op.astype(total, str(node.required(place).ty.dtype))))
    return relax.Tuple(running[: node.outputs])


def layer_normalization(node: Node) -> relax.Expr:
    """Normalises the axes from ``axis`` on; the mean and the inverse deviation if asked for."""
    rank, wide = node.rank, _wide(node)
    axis = node.attributes["axis"]
    if not -rank <= axis < rank:
        raise UnsupportedOperatorError(f"axis {axis} is outside a tensor of rank {rank}")
    axes = list(range(axis % rank, rank))
    data, scale = _as(node, 0, wide), _as(node, 1, wide)
    bias = None if node.input(2) is None else _as(node, 2, wide)
    epsilon = node.attributes["epsilon"]
    dims = static_shape_of(node.data.ty)
    inner = None if dims is None else dims[axes[0] :]
    # Relax's own knows float32 and float16 only.
    fits = inner is not None and static_shape_of(scale.ty) == inner and wide == "float32"
    if fits and (bias is None or static_shape_of(bias.ty) == inner):
        zeros = bias if bias is not None else node.emit(relax.op.zeros(inner, wide))
        result = node.emit(relax.op.nn.layer_norm(data, scale, zeros, axes, epsilon))
    else:
        _, centered, variance = _moments(node, data, axes)
        normal = _divided(node, centered, variance, epsilon, wide)
        result = node.emit(relax.op.multiply(normal, scale))
        result = result if bias is None else node.emit(relax.op.add(result, bias))
    result = node.emit(relax.op.astype(result, node.dtype)) if wide != node.dtype else result
    if node.outputs == 1:
        return result
    mean, _, variance = _moments(node, data, axes)
    shifted = node.emit(relax.op.add(variance, relax.const(epsilon, wide)))
    inverse = node.emit(relax.op.divide(relax.const(1, wide), node.emit(relax.op.sqrt(shifted))))
    # ONNX gives both the type of the stash, whatever the type of the data is.
    stashed = [node.emit(relax.op.astype(value, "float32")) for value in (mean, inverse)]
    return relax.Tuple([result, *stashed][: node.outputs])


def rms_normalization(node: Node) -> relax.Expr:
    """``x / sqrt(mean of squares)`` over the axes from ``axis`` on, times a scale."""
    rank, wide = node.rank, _wide(node)
    axis = node.attributes["axis"]
    if node.outputs > 1:
        raise UnsupportedOperatorError("the inverse deviation as a second output")
    if not -rank <= axis < rank:
        raise UnsupportedOperatorError(f"axis {axis} is outside a tensor of rank {rank}")
    data = _as(node, 0, wide)
    squares = node.emit(relax.op.multiply(data, data))
    mean = node.emit(relax.op.mean(squares, list(range(axis % rank, rank)), keepdims=True))
    normal = _divided(node, data, mean, node.attributes["epsilon"], wide)
    result = relax.op.multiply(normal, _as(node, 1, wide))
    return result if wide == node.dtype else relax.op.astype(node.emit(result), node.dtype)


def group_normalization(node: Node) -> relax.Expr:
    """``(N, C, ...)`` in groups of channels; scale and bias have one value a channel.

    Below opset 21 they have one value a group.
    """
    groups, channels, wide = node.attributes["num_groups"], node.extent(1), _wide(node)
    if groups < 1 or channels % groups:
        raise UnsupportedOperatorError(f"num_groups {groups} does not divide {channels} channels")
    data, scale, bias = (_as(node, place, wide) for place in range(3))
    if node.opset < 21:
        scale, bias = (_for_each_channel(node, value, channels) for value in (scale, bias))
    epsilon = node.attributes["epsilon"]
    if wide == "float64":  # Relax's own knows float32 and float16 only
        return _grouped(node, data, scale, bias, groups, epsilon)
    axes = list(range(2, node.rank))
    result = relax.op.nn.group_norm(
        data, scale, bias, groups, channel_axis=1, axes=axes, epsilon=epsilon
    )
    return result if wide == node.dtype else relax.op.astype(node.emit(result), node.dtype)


def _grouped(
    node: Node,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    groups: int,
    epsilon: float,
) -> relax.Expr:
    rows = node.emit(relax.op.reshape(data, [node.extent(0), groups, -1]))
    _, centered, variance = _moments(node, rows, [2])
    normal = _divided(node, centered, variance, epsilon, node.dtype)
    whole = node.emit(relax.op.reshape(normal, data.ty.shape))
    affine = [1, -1, *(1 for _ in range(node.rank - 2))]
    scaled = relax.op.multiply(whole, node.emit(relax.op.reshape(scale, affine)))
    return relax.op.add(node.emit(scaled), node.emit(relax.op.reshape(bias, affine)))


def mean_variance_normalization(node: Node) -> relax.Expr:
    """``(x - mean) / deviation`` over ``axes``."""
    wide = _wide(node)
    _, centered, variance = _moments(node, _as(node, 0, wide), list(node.attributes["axes"]))
    deviation = node.emit(relax.op.sqrt(variance))
    shifted = node.emit(relax.op.add(deviation, relax.const(_TINY, wide)))
    result = relax.op.divide(centered, shifted)
    return result if wide == node.dtype else relax.op.astype(node.emit(result), node.dtype)


def lrn(node: Node) -> relax.Expr:
    """``x / (bias + alpha / size * sum of squares of size channels) ** beta``, of any rank.

    The window of an even size reaches one channel further behind than in front.
    """
    size, attributes = node.attributes["size"], node.attributes
    if size < 1 or node.rank < 2:
        raise UnsupportedOperatorError(f"size {size} of a tensor of rank {node.rank}")
    batch, channels = node.extent(0), node.extent(1)
    area = math.prod(node.extent(axis) for axis in range(2, node.rank))
    squares = node.emit(relax.op.multiply(node.data, node.data))
    planes = node.emit(relax.op.reshape(squares, [batch, 1, channels, area]))
    before = (size - 1) // 2
    means = node.emit(
        relax.op.nn.avg_pool2d(
            planes,
            [size, 1],
            padding=[before, 0, size - 1 - before, 0],
            count_include_pad=True,
        )
    )
    means = node.emit(relax.op.reshape(means, node.data.ty.shape))
    alpha, beta, bias = (
        relax.const(attributes[name], node.dtype) for name in ("alpha", "beta", "bias")
    )
    scale = node.emit(relax.op.add(node.emit(relax.op.multiply(means, alpha)), bias))
    return relax.op.divide(node.data, node.emit(relax.op.power(scale, beta)))


def _wide(node: Node) -> str:
    """The type that sums are taken in."""
    return "float64" if node.dtype == "float64" else "float32"


def _as(node: Node, place: int, dtype: str) -> relax.Expr:
    value = node.required(place)
    if str(value.ty.dtype) == dtype:
        return value
    return node.emit(relax.op.astype(value, dtype))


def _moments(
    node: Node, data: relax.Expr, axes: list[int]
) -> tuple[relax.Var, relax.Var, relax.Var]:
    """Mean, what is left of the data without it, and variance."""
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    centered = node.emit(relax.op.subtract(data, mean))
    squares = node.emit(relax.op.multiply(centered, centered))
    return mean, centered, node.emit(relax.op.mean(squares, axes, keepdims=True))


def _divided(
    node: Node, centered: relax.Expr, variance: relax.Expr, epsilon: float, wide: str
) -> relax.Var:
    shifted = node.emit(relax.op.add(variance, relax.const(epsilon, wide)))
    return node.emit(relax.op.divide(centered, node.emit(relax.op.sqrt(shifted))))


def _for_each_channel(node: Node, value: relax.Expr, channels: int) -> relax.Var:
    """``(groups,)`` -> ``(channels,)``."""
    (groups,) = static_shape_of(value.ty) or (0,)
    column = node.emit(relax.op.reshape(value, [groups, 1]))
    wide = node.emit(relax.op.broadcast_to(column, [groups, channels // groups]))
    return node.emit(relax.op.reshape(wide, [channels]))
