"""FoldLinearOps: equal numbers on random chains, and what is left of whole networks."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_function import const, module_of
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.op import add, divide, matmul, multiply, negative, subtract
from tvm.relax.op.nn import batch_norm, conv2d, conv2d_transpose, relu

from tvm_neocpu.relay_passes.folding.canonicalize import Canonicalize
from tvm_neocpu.relay_passes.folding.fold_constants import FoldConstants
from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.linear.fold_linear_ops import FoldLinearOps

LIGHT_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def evaluate(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    """Run ``main`` in double precision."""
    function = mod["main"]
    known = {function.params[0]: x.astype("float64")}

    def value_of(expr: relax.Expr) -> np.ndarray:
        if isinstance(expr, relax.Var):
            return known[expr]
        if isinstance(expr, relax.TupleGetItem):
            return value_of(expr.tuple_value)
        array = array_of(expr)
        return array if array is not None else OPS[expr.op.name](expr, *map(value_of, expr.args))

    for block in function.body.blocks:
        for binding in block.bindings:
            known[binding.var] = value_of(binding.value)
    return value_of(function.body.body)


def _conv2d(call: tvm.ir.Call, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    attrs = call.attrs
    top, left, bottom, right = map(int, attrs.padding)
    (sy, sx), (dy, dx) = map(int, attrs.strides), map(int, attrs.dilation)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = (dy * (weight.shape[2] - 1) + 1, dx * (weight.shape[3] - 1) + 1)
    taps = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))[:, :, ::sy, ::sx, ::dy, ::dx]
    groups = int(attrs.groups)
    taps = taps.reshape(len(x), groups, -1, *taps.shape[2:])
    weight = weight.reshape(groups, -1, *weight.shape[1:])
    y = np.einsum("ngihwkl,goikl->ngohw", taps, weight)
    return y.reshape(len(x), -1, *y.shape[3:])


def _conv2d_transpose(call: tvm.ir.Call, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    attrs = call.attrs
    groups, stride = int(attrs.groups), int(attrs.strides[0])
    top, left, bottom, right = map(int, attrs.padding)
    _, _, height, width = x.shape
    _, outputs, kh, kw = weight.shape
    full = np.zeros(
        (len(x), groups, outputs, (height - 1) * stride + kh, (width - 1) * stride + kw)
    )
    x = x.reshape(len(x), groups, -1, height, width)
    weight = weight.reshape(groups, -1, outputs, kh, kw)
    for i, j in np.ndindex(height, width):
        spot = np.einsum("ngi,giokl->ngokl", x[..., i, j], weight)
        full[..., i * stride : i * stride + kh, j * stride : j * stride + kw] += spot
    full = full.reshape(len(x), groups * outputs, *full.shape[3:])
    return full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right]


def _batch_norm(
    call: tvm.ir.Call,
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    shape = [-1 if axis == int(call.attrs.axis) else 1 for axis in range(x.ndim)]
    gamma, beta, mean, variance = (v.reshape(shape) for v in (gamma, beta, mean, variance))
    return gamma * (x - mean) / np.sqrt(variance + float(call.attrs.epsilon)) + beta


OPS = {
    "relax.add": lambda call, x, y: x + y,
    "relax.divide": lambda call, x, y: x / y,
    "relax.matmul": lambda call, x, y: x @ y,
    "relax.multiply": lambda call, x, y: x * y,
    "relax.negative": lambda call, x: -x,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.conv2d": _conv2d,
    "relax.nn.conv2d_transpose": _conv2d_transpose,
    "relax.nn.relu": lambda call, x: np.maximum(x, 0),
    "relax.subtract": lambda call, x, y: x - y,
}


def random_affine(draw: st.DrawFn, x: relax.Expr, rng: np.random.Generator) -> relax.Expr:
    """One elementwise linear operation, with a scalar or a vector over the channels."""
    size = x.ty.shape[1]
    tail = (1,) * (x.ty.ndim - 2)
    vector = (rng.uniform(0.5, 2, int(size)) * rng.choice([-1, 1], int(size))).astype("float32")
    operand = draw(
        st.sampled_from([vector[0], vector.reshape(-1, *tail), vector.reshape(1, -1, *tail)])
    )
    constant = relax.const(operand, "float32")
    kind = draw(st.sampled_from(["norm", "add", "mul", "sub", "rsub", "div", "neg"]))
    if kind == "norm":
        params = [const(vector), const(vector[::-1]), const(vector / 2), const(vector**2)]
        return relax.TupleGetItem(batch_norm(x, *params, axis=1, training=False), 0)
    return {
        "add": lambda: add(x, constant),
        "mul": lambda: multiply(constant, x),
        "sub": lambda: subtract(x, constant),
        "rsub": lambda: subtract(constant, x),
        "div": lambda: divide(x, constant),
        "neg": lambda: negative(x),
    }[kind]()


def random_conv(draw: st.DrawFn, x: relax.Expr, rng: np.random.Generator) -> relax.Expr:
    inputs, size = int(x.ty.shape[1]), min(int(x.ty.shape[2]), int(x.ty.shape[3]))
    groups = draw(st.sampled_from([g for g in (1, 2, inputs) if inputs % g == 0]))
    outputs = groups * draw(st.integers(1, 3))
    kernel = draw(st.sampled_from([k for k in (1, 1, 2, 3) if k <= size]))
    window = {"strides": draw(st.sampled_from([1, 2])), "groups": groups}
    padding = draw(st.integers(0, kernel - 1))
    if draw(st.integers(0, 4)) == 0 and size < 8:
        weight = const(rng.normal(size=(inputs, outputs // groups, kernel, kernel)))
        return conv2d_transpose(x, weight, padding=padding // 2, **window)
    weight = const(rng.normal(size=(outputs, inputs // groups, kernel, kernel)))
    return conv2d(x, weight, padding=(padding, 0, padding, padding), **window)


def random_dense(draw: st.DrawFn, x: relax.Expr, rng: np.random.Generator) -> relax.Expr:
    return matmul(x, const(rng.normal(size=(int(x.ty.shape[1]), draw(st.integers(1, 6))))))


@st.composite
def chains(draw: st.DrawFn) -> tvm.IRModule:
    """Up to eight linear operations in a row, now and then a ReLU or a second reader."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    is_image = draw(st.booleans())
    kinds = draw(st.lists(st.sampled_from("llaaar2"), min_size=1, max_size=8))

    def build(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        for kind in kinds:
            if kind == "l":
                x = b.emit((random_conv if is_image else random_dense)(draw, x, rng))
            elif kind == "a":
                x = b.emit(random_affine(draw, x, rng))
            elif kind == "r":
                x = b.emit(relu(x))
            else:
                x = b.emit(add(x, b.emit(random_affine(draw, x, rng))))
        return x

    return module_of((2, 4, 7, 7) if is_image else (2, 4), build)


def count(mod: tvm.IRModule) -> Counter[str]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return Counter(v.op.name for v in values if isinstance(v, tvm.ir.Call))


@settings(max_examples=examples(150))
@given(chains())
def test_random_chains_compute_the_same(mod: tvm.IRModule) -> None:
    folded = FoldLinearOps()(mod)
    relax.analysis.well_formed(folded)
    shape = [int(size) for size in mod["main"].params[0].ty.shape]
    x = np.random.default_rng(0).normal(size=shape)
    want = evaluate(mod, x)
    np.testing.assert_allclose(
        evaluate(folded, x), want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max())
    )
    before, after = count(mod), count(folded)
    assert "relax.nn.batch_norm" not in after
    for name in ("relax.nn.conv2d", "relax.nn.conv2d_transpose", "relax.matmul"):
        assert after[name] <= before[name]
    assert after.total() <= before.total() + before["relax.nn.batch_norm"]


@settings(max_examples=8)
@given(chains())
def test_random_chains_still_compile(mod: tvm.IRModule) -> None:
    shape = [int(size) for size in mod["main"].params[0].ty.shape]
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    target = tvm.target.Target({"kind": "llvm"})
    executable = tvm.compile(FoldLinearOps()(mod), target=target)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    got, want = machine["main"](tvm.runtime.tensor(x)).numpy(), evaluate(mod, x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1, np.abs(want).max()))


# --- whole networks ------------------------------------------------------------------------------


def fold_light(name: str) -> tuple[Counter[str], Counter[str]]:
    mod = from_onnx(onnx.load(LIGHT_MODELS / f"light_{name}.onnx"))
    folded = FoldLinearOps()(Canonicalize()(FoldConstants()(mod)))
    relax.analysis.well_formed(folded)
    result = count(mod), count(folded)
    del mod, folded
    gc.collect()  # VGG-19 holds 575 MB
    return result


@pytest.mark.parametrize(
    "name",
    [
        "bvlc_alexnet",
        "densenet121",
        "inception_v1",
        "inception_v2",
        "resnet50",
        "shufflenet",
        "squeezenet",
        "vgg19",
        "zfnet512",
    ],
)
def test_no_batch_norm_is_left_in_a_network(name: str) -> None:
    before, after = fold_light(name)
    assert after["relax.nn.batch_norm"] == 0
    assert after["relax.nn.conv2d"] == before["relax.nn.conv2d"]
    assert after["relax.matmul"] == before["relax.matmul"]
    assert after["relax.multiply"] <= before["relax.multiply"]


def test_what_is_left_of_resnet50() -> None:
    """53 convolutions with a bias each, 16 residual additions, one dense layer with bias."""
    assert fold_light("resnet50")[1] == {
        "relax.nn.conv2d": 53,
        "relax.add": 53 + 16 + 1,
        "relax.nn.relu": 49,
        "relax.nn.max_pool2d": 1,
        "relax.nn.avg_pool2d": 1,
        "relax.reshape": 1,
        "relax.matmul": 1,
        "relax.nn.softmax": 1,
    }


def test_what_is_left_of_densenet121() -> None:
    """59 of 121 batch norms follow a convolution; the other 62 follow a concat or a pooling."""
    assert fold_light("densenet121")[1] == {
        "relax.nn.conv2d": 121,
        "relax.multiply": 62,
        "relax.add": 59 + 62 + 1,
        "relax.nn.relu": 121,
        "relax.concat": 58,
        "relax.nn.max_pool2d": 1,
        "relax.nn.avg_pool2d": 3,
        "relax.mean": 1,
    }
