"""Rows of every length reduced in vectors: the last elements count once, sums lose few digits."""

from __future__ import annotations

import numpy as np
import pytest
from one_module import Case, scheduled_results, script_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.targets import parse_target

op = relax.op
TARGETS = [parse_target(), parse_target("llvm -mcpu=haswell")]
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)

ROWS: dict[str, Case] = {
    "short": ((3, 17), "float32", lambda x: op.sum(x, axis=[-1])),
    "one vector": ((3, 16), "float32", lambda x: op.max(x, axis=[-1])),
    "odd": ((3, 197), "float32", lambda x: op.sum(x, axis=[-1])),
    "long and odd": ((2, 1001), "float32", lambda x: op.min(x, axis=[-1])),
    "image": ((2, 5, 7, 7), "float32", lambda x: op.mean(x, axis=[2, 3])),
    "images": ((2, 5, 7, 9), "float32", lambda x: op.max(x, axis=[0, 2, 3])),
    "part of an image": ((2, 5, 7, 20), "float32", lambda x: op.sum(x, axis=[1, 3])),
    "doubles": ((3, 39), "float64", lambda x: op.sum(x, axis=[-1])),
    "integers": ((3, 39), "int32", lambda x: op.sum(x, axis=[-1])),
    "products": ((3, 37), "float32", lambda x: op.prod(op.clip(x, 0.9, 1.1), axis=[-1])),
    "exponentials": ((3, 75), "float32", lambda x: op.sum(op.exp(x), axis=[-1])),
    "many exponentials": ((1, 64, 512), "float32", lambda x: op.max(op.exp(x), axis=[-1])),
    "hyperbolic tangents": ((2, 32, 508), "float32", lambda x: op.mean(op.tanh(x), axis=[-1])),
    "squares": ((3, 75), "float32", lambda x: op.sqrt(op.sum(op.multiply(x, x), axis=[-1]))),
    "softmax": ((2, 3, 197), "float32", lambda x: op.nn.softmax(x, axis=-1)),
    "narrow softmax": ((2, 3, 5), "float32", lambda x: op.nn.softmax(x, axis=-1)),
    "logarithm of softmax": ((4, 100), "float32", lambda x: op.nn.log_softmax(x, axis=-1)),
    "softmax and more": (
        (4, 100),
        "float32",
        lambda x: op.multiply(op.nn.softmax(x, axis=-1), relax.const(np.float32(3))),
    ),
    "arg max": ((3, 75), "float32", lambda x: op.argmax(x, axis=-1)),
    "variance": ((3, 75), "float32", lambda x: op.variance(x, axis=[-1])),
    "norm": (
        (3, 7, 75),
        "float32",
        lambda x: op.nn.layer_norm(
            x, relax.const(np.ones(75, "float32")), relax.const(np.ones(75, "float32")), [-1]
        ),
    ),
}


def powers(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(axis=-1, keepdims=True))


def softmax(x: np.ndarray) -> np.ndarray:
    return powers(x) / powers(x).sum(axis=-1, keepdims=True)


EXPECTED = {
    "short": lambda x: x.sum(-1),
    "one vector": lambda x: x.max(-1),
    "odd": lambda x: x.sum(-1),
    "long and odd": lambda x: x.min(-1),
    "image": lambda x: x.mean((2, 3)),
    "images": lambda x: x.max((0, 2, 3)),
    "part of an image": lambda x: x.sum((1, 3)),
    "doubles": lambda x: x.sum(-1),
    "integers": lambda x: x.sum(-1),
    "products": lambda x: np.clip(x, 0.9, 1.1).prod(-1),
    "exponentials": lambda x: np.exp(x).sum(-1),
    "many exponentials": lambda x: np.exp(x).max(-1),
    "hyperbolic tangents": lambda x: np.tanh(x).mean(-1),
    "squares": lambda x: np.sqrt((x * x).sum(-1)),
    "softmax": softmax,
    "narrow softmax": softmax,
    "logarithm of softmax": lambda x: np.log(softmax(x)),
    "softmax and more": lambda x: 3 * softmax(x),
    "arg max": lambda x: x.argmax(-1),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: (
        (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + 1
    ),
}


@pytest.mark.parametrize("target", TARGETS, ids=["here", "haswell"])
def test_every_element_counts_once(target) -> None:
    rng = np.random.default_rng(0)
    inputs = [(4 * rng.normal(size=shape)).astype(dtype) for shape, dtype, _ in ROWS.values()]
    found = scheduled_results(list(ROWS.values()), inputs, target)
    for name, one, x in zip(ROWS, found, inputs, strict=True):
        exact = EXPECTED[name](x.astype("float64") if x.dtype.kind == "f" else x)
        np.testing.assert_allclose(one, exact, rtol=3e-6, atol=1e-5, err_msg=name)


def test_rows_of_an_image_are_one() -> None:
    text = script_of(((1, 64, 7, 7), "float32", ROWS["image"][2]), SKYLAKE)
    assert text.count("T.let[T.float32x16] = x0") == 3, "49 = 3 x 16 + 1"


def test_a_softmax_is_one_loop_over_rows() -> None:
    text = script_of(((64, 197), "float32", ROWS["softmax"][2]), SKYLAKE)
    assert text.count("T.parallel(") == 1
    assert "softmax_exp = T.sblock_alloc_buffer((T.int64(1), T.int64(197)))" in text


def test_vectors_are_those_of_the_cpu() -> None:
    text = script_of(ROWS["odd"], Cpu("haswell", AVX2, cores=1))
    assert "T.let[T.float32x8]" in text
    assert "T.let[T.float32x16]" not in text
