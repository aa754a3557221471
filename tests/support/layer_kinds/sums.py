"""Layers that combine a row or a matrix: products, reductions, orders."""

from __future__ import annotations

from random_onnx import Choices, RandomNet, Skip

from layer_kinds.layer import Write


def reduce(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    rank = len(net.shape_of(x))
    kind = pick("Mean", "Sum", "Max", "Min", "L2", "L1", "SumSquare", "LogSumExp")
    axes = pick((rank - 1,), (1,), (-1, -2), (0,), tuple(range(1, rank)), ())
    if rank < 2:
        raise Skip("nothing to reduce")
    names = [net.integers(*sorted({axis % rank for axis in axes}))] if axes else []
    return net(f"Reduce{kind}", x, *names, keepdims=pick(1, 0))


def dense(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    if len(shape) < 2:
        raise Skip("a vector")
    flat = net("Flatten", x, axis=1) if len(shape) != 2 or pick(False, True) else x
    width, outputs = net.shape_of(flat)[1], pick(10, 1, 16, 33, 64)
    if width * outputs > 300_000:
        raise Skip("a large weight")
    if pick(True, False):
        weight = net.weight(outputs, width)
        bias = [net.weight(outputs)] if pick(True, False) else []
        return net("Gemm", flat, weight, *bias, transB=1, alpha=pick(1.0, 0.5), beta=pick(1.0, 2.0))
    out = net("MatMul", flat, net.constant(net.rng.normal(size=(width, outputs)) / width**0.5))
    return net("Add", out, net.weight(outputs)) if pick(True, False) else out


def tokens(net: RandomNet, pick: Choices) -> str:
    """A matrix product over the channels of every pixel, as a transformer block has it."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    outputs = pick(16, channels, 5, 32)
    rows = net("Reshape", x, net.integers(batch, channels, height * width))
    rows = net("Transpose", rows, perm=[0, 2, 1])
    weight = net.constant(net.rng.normal(size=(channels, outputs)) / channels**0.5)
    out = net("MatMul", rows, weight)
    if pick(True, False):
        out = net(pick("Add", "Mul"), out, net.uniform(0.5, 1.5, outputs))
    if pick(False, True):
        out = net(pick("Relu", "Sigmoid"), out)
    out = net("Transpose", out, perm=[0, 2, 1])
    return net("Reshape", out, net.integers(batch, outputs, height, width))


def attention(net: RandomNet, pick: Choices) -> str:
    """A product of two activations, softmax between them."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    rows = net("Reshape", x, net.integers(batch, channels, height * width))
    scores = net("MatMul", net("Transpose", rows, perm=[0, 2, 1]), rows)
    scores = net("Softmax", net("Mul", scores, net.constant(0.1)), axis=pick(-1, 1))
    return net("Reshape", net("MatMul", rows, scores), net.integers(*net.shape_of(x)))


def softmax(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    rank = len(net.shape_of(x))
    return net(pick("Softmax", "LogSoftmax"), x, axis=pick(1, -1, rank - 2) if rank > 1 else 0)


def einsum(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    weight = net.weight(12, net.shape_of(x)[1])
    return net("Einsum", x, weight, equation=pick("nchw,kc->nkhw", "nchw,kc->nhwk"))


def ordered(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    rank = len(net.shape_of(x))
    if not rank:
        raise Skip("a scalar has no order")
    axis = pick(rank - 1, min(1, rank - 1))
    if pick(True, False):
        return net("CumSum", x, net.constant(axis, "int64"))
    count = pick(1, 2)
    if net.shape_of(x)[axis] < count:
        raise Skip("too few")
    return net.several(2, "TopK", x, net.integers(count), axis=axis)[0]


KINDS: dict[str, Write] = {
    "reduce": reduce,
    "dense": dense,
    "tokens": tokens,
    "attention": attention,
    "softmax": softmax,
    "einsum": einsum,
    "ordered": ordered,
}
