"""Modules of one Relax function over one tensor, and operands of linear operations in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax.op.nn import batch_norm

Build = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]


def module_of(shape: tuple[int, ...], build: Build, dtype: str = "float32") -> tvm.IRModule:
    """``main(x)`` of ``shape`` that returns what ``build`` makes of ``x``."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def whole(*shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers without zero: products and sums of them are exact in fp32."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 5, shape) * rng.choice([-1, 1], shape)).astype("float32")


def const(array: np.ndarray) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array, "float32"))


def channels(vector: np.ndarray) -> relax.Expr:
    return const(vector.reshape(1, -1, 1, 1))


def normalized(x: relax.Expr, gamma: np.ndarray, beta: np.ndarray) -> relax.Expr:
    """A batch norm with mean 2 and variance 4: ``gamma / 2 * (x - 2) + beta``."""
    mean, variance = np.full_like(gamma, 2), np.full_like(gamma, 4)
    params = map(const, (gamma, beta, mean, variance))
    return relax.TupleGetItem(batch_norm(x, *params, axis=1, epsilon=0.0, training=False), 0)
