"""Layers of one element at a time, and norms."""

from __future__ import annotations

import math

from onnx import TensorProto
from random_onnx import Choices, RandomNet, Shape, Skip

from layer_kinds.layer import Write, factors


def batch_norm(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    bounds = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 1.5))
    parts = [net.uniform(*bound, channels) for bound in bounds]
    return net("BatchNormalization", x, *parts)


def norm(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    kind = pick("InstanceNormalization", "GroupNormalization", "LayerNormalization", "LRN", "MVN")
    if math.prod(shape[2:]) < 2:
        raise Skip("the variance of one element is zero")
    pair = [net.uniform(0.5, 1.5, shape[1]), net.uniform(-0.5, 0.5, shape[1])]
    if kind == "LRN":
        return net("LRN", x, size=pick(5, 3, 7), alpha=0.1, beta=0.75, bias=1.5)
    if kind == "MVN":
        return net("MeanVarianceNormalization", x, axes=pick([0, 2, 3], [2, 3]))
    if kind == "GroupNormalization":
        groups = pick(*factors(shape[1])[:5])
        return net(kind, x, *pair, num_groups=groups)
    if kind == "LayerNormalization":
        axis = pick(1, -2, 2)
        scales = [net.uniform(0.5, 1.5, *shape[axis:]), net.uniform(-0.5, 0.5, *shape[axis:])]
        return net(kind, x, *scales[: pick(2, 1)], axis=axis)
    return net(kind, x, *pair)


ACTIVATIONS: dict[str, dict[str, tuple[float, ...]]] = {
    "Relu": {},
    "LeakyRelu": {"alpha": (0.01, 0.3, 1.5)},
    "Sigmoid": {},
    "Tanh": {},
    "HardSwish": {},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, 0.3)},
    "Elu": {"alpha": (1.0, 0.5)},
    "Selu": {},
    "Celu": {"alpha": (1.0, 0.7)},
    "Softplus": {},
    "Softsign": {},
    "Mish": {},
    "Erf": {},
    "Abs": {},
    "Neg": {},
    "Sin": {},
    "Cos": {},
    "Atan": {},
    "Identity": {},
}


def activation(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    kind = pick(*ACTIVATIONS)
    attributes = {name: pick(*values) for name, values in ACTIVATIONS[kind].items()}
    return net(kind, x, **attributes)


def second_activation(net: RandomNet, pick: Choices) -> str:
    """Another number reaches the far end of the table."""
    kinds = list(ACTIVATIONS)[9:]
    return net(pick(*kinds), net.pick(pick, rank=None))


def composed_activation(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    kind = pick("swish", "clip", "gelu", "tanh gelu", "by hand", "exp", "sqrt", "log", "prelu")
    if kind == "swish":
        return net("Mul", x, net("Sigmoid", x))
    if kind == "clip":
        low, high = pick((0.0, 6.0), (-1.0, 1.0), (0.0, None), (None, 0.5), (0.5, -0.5))
        bounds = ["" if bound is None else net.constant(bound) for bound in (low, high)]
        return net("Clip", x, *bounds)
    if kind in ("gelu", "tanh gelu"):
        return net("Gelu", x, approximate="none" if kind == "gelu" else "tanh")
    if kind == "by hand":
        half = net("Mul", x, net.constant(0.5))
        inner = net("Erf", net("Div", x, net.constant(math.sqrt(2))))
        return net("Mul", half, net("Add", inner, net.constant(1.0)))
    if kind == "exp":
        return net("Exp", net("Clip", x, "", net.constant(2.0)))
    if kind == "sqrt":
        return net("Sqrt", net("Abs", x))
    if kind == "log":
        return net("Log", net("Add", net("Abs", x), net.constant(0.5)))
    shape = net.shape_of(x)
    if len(shape) != 4:
        raise Skip("the slopes are for channels")
    slopes = pick((shape[1], 1, 1), (1,), (1, 1, 1), shape[1:])
    return net("PRelu", x, net.uniform(-0.2, 0.5, *slopes))


def add(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    other = net.pick(pick, rank=len(net.shape_of(x)), like=net.shape_of(x))
    return net(pick("Add", "Sub", "Mul", "Max", "Min", "Sum"), x, other)


def with_constant(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    ones = tuple(1 for _ in shape)
    shapes: list[Shape] = [(), (1,), shape, shape[-1:], (*shape[:-1], 1), ones]
    if len(shape) == 4:
        shapes += [(shape[1], 1, 1), (1, shape[1], 1, 1), (shape[2], 1), (1, 1, *shape[2:])]
    constant = net.uniform(0.5, 1.5, *pick(*shapes))
    kind = pick("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow")
    if kind == "Pow":
        return net("Pow", x, net.constant(pick(2.0, 3.0)))
    pair = (x, constant) if kind == "Div" or pick(True, False) else (constant, x)
    return net(kind, *pair)


def where(net: RandomNet, pick: Choices) -> str:
    """The condition is rounded: both sides are equal where it changes."""
    x = net.pick(pick, rank=None)
    mask = net(pick("Greater", "LessOrEqual"), x, net.constant(0.1))
    above = net("Sub", x, net.constant(0.1))
    other = pick(net.constant(0.5), net.pick(pick, len(net.shape_of(x)), net.shape_of(x)))
    scaled = net("Mul", above, other)
    return net("Where", mask, *pick((above, scaled), (scaled, above)))


def broadcast(net: RandomNet, pick: Choices) -> str:
    """Two activations of different extents."""
    x = net.pick(pick)
    axes = pick((2, 3), (1,), (3,))
    small = net("ReduceMean", x, net.integers(*axes), keepdims=1)
    return net(pick("Add", "Mul", "Sub"), *pick((x, small), (small, x)))


def cast(net: RandomNet, pick: Choices) -> str:
    """To another type and back: of truths all are true, whatever is rounded before."""
    x = net.pick(pick, rank=None)
    kind = pick("DOUBLE", "BOOL", "FLOAT16")
    if kind == "BOOL":
        large = net("Add", net("Abs", x), net.constant(1.0))
        truth = net("Cast", large, to=TensorProto.BOOL)
        return net("Mul", x, net("Cast", truth, to=TensorProto.FLOAT))
    if kind == "DOUBLE":
        return net("Cast", net("Cast", x, to=TensorProto.DOUBLE), to=TensorProto.FLOAT)
    half = net("Cast", net("Mul", x, net.constant(0.0)), to=TensorProto.FLOAT16)
    return net("Add", x, net("Cast", half, to=TensorProto.FLOAT))


KINDS: dict[str, Write] = {
    "cast": cast,
    "batch norm": batch_norm,
    "norm": norm,
    "activation": activation,
    "second activation": second_activation,
    "composed activation": composed_activation,
    "add": add,
    "with constant": with_constant,
    "where": where,
    "broadcast": broadcast,
}
