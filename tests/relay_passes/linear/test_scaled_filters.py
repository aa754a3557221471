"""ScaledFilters: Before -> Expected, and ONNX Runtime's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from one_function import Build, const, module_of, whole
from onnx_text import check_like_peer, parsed
from tvm import relax
from tvm.relax.op import add, divide, matmul, multiply, permute_dims, power, reshape, sqrt
from tvm.relax.op import sum as sum_of
from tvm.relax.op.nn import conv2d, conv2d_transpose

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.linear.scaled_filters import ScaledFilters
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").cpu
STYLE = (1, 4)
W, DATA, OTHER = whole(6, 4, 3, 3), whole(1, 4, 5, 5, seed=1), whole(4, 6, seed=2)


def assert_becomes(before: Build, expected: Build) -> None:
    mod = module_of(STYLE, before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(ScaledFilters()(mod), tidy(module_of(STYLE, expected)))
    assert mod.script() == fingerprint, "the pass changed its argument"


def channels(b: relax.BlockBuilder, vector: relax.Expr) -> relax.Expr:
    return b.emit(reshape(vector, (1, -1, 1, 1)))


def test_a_modulated_convolution() -> None:
    def before(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        factor = b.emit(reshape(style, (1, 1, 4, 1, 1)))
        scaled = b.emit(multiply(const(W.reshape(1, *W.shape)), factor))
        total = b.emit(sum_of(b.emit(power(scaled, relax.const(2.0, "float32"))), axis=[2, 3, 4]))
        norm = b.emit(reshape(b.emit(sqrt(total)), (1, 6, 1, 1, 1)))
        weight = b.emit(reshape(b.emit(divide(scaled, norm)), W.shape))
        return conv2d(const(DATA), weight, padding=1)

    def expected(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        factor = b.emit(reshape(style, (1, 1, 4, 1, 1)))
        sums = np.square(W.astype("float64")).sum((2, 3)).T
        size = 2.0 ** round(np.log2(sums.max()) / 2)
        row = b.emit(reshape(factor, (1, -1)))
        row = b.emit(multiply(row, relax.const(size, "float32")))
        squares = b.emit(multiply(row, row))
        total = b.emit(reshape(b.emit(matmul(squares, const(sums / size**2))), (1, 6)))
        norm = b.emit(reshape(b.emit(sqrt(total)), (1, 6, 1, 1, 1)))
        data = b.emit(multiply(const(DATA), channels(b, factor)))
        result = b.emit(conv2d(data, const(W), padding=1))
        inverse = b.emit(divide(relax.const(1, "float32"), norm))
        return multiply(result, channels(b, inverse))

    assert_becomes(before, expected)


def test_a_transposed_one() -> None:
    def before(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        scaled = b.emit(multiply(b.emit(reshape(style, (4, 1, 1))), const(W)))
        weight = b.emit(permute_dims(scaled, (1, 0, 2, 3)))
        return conv2d_transpose(const(DATA), weight, strides=(2, 2))

    def expected(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        factor = b.emit(reshape(style, (4, 1, 1)))
        data = b.emit(multiply(const(DATA), channels(b, factor)))
        return conv2d_transpose(data, const(W.transpose(1, 0, 2, 3)), strides=(2, 2))

    assert_becomes(before, expected)


@pytest.mark.parametrize("shape", [(4, 1, 3), (6, 1, 1, 1), (1, 1, 1, 3), (6, 4, 1, 1)])
def test_what_is_no_factor_of_channels_stays(shape: tuple[int, ...]) -> None:
    """A factor of a tap, one of two axes, a sum in place of a product."""
    join = add if shape == (6, 1, 1, 1) else multiply

    def unchanged(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        many = b.emit(matmul(style, const(whole(4, int(np.prod(shape)), seed=3))))
        weight = b.emit(join(const(W), b.emit(reshape(many, shape))))
        return conv2d(const(DATA), weight)

    assert_becomes(unchanged, unchanged)


def test_an_exponent_that_adds_an_axis_stays() -> None:
    """The sum's axes count in what has the axis."""

    def unchanged(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        scaled = b.emit(multiply(const(W), b.emit(reshape(style, (1, 4, 1, 1)))))
        squares = b.emit(power(scaled, const(np.full((1, 1, 1, 1, 1), 2))))
        return sum_of(squares, axis=[2, 3])

    assert_becomes(unchanged, unchanged)


@pytest.mark.parametrize("factor", ["last", "style"])
def test_a_long_chain_of_products_takes_no_time(factor: str) -> None:
    """Squares of squares took twice as long for each, and 600 products Python's whole stack."""

    def unchanged(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        last = b.emit(relax.op.nn.relu(style))
        for _ in range(600):
            last = b.emit(multiply(last, last if factor == "last" else style))
        return sum_of(b.emit(multiply(last, last)), axis=[1])

    assert_becomes(unchanged, unchanged)


def test_groups_stay() -> None:
    def unchanged(b: relax.BlockBuilder, style: relax.Var) -> relax.Expr:
        factor = b.emit(reshape(style, (1, 4, 1, 1)))
        weight = b.emit(multiply(const(W), factor))
        return conv2d(const(whole(1, 8, 5, 5)), weight, groups=2)

    assert_becomes(unchanged, unchanged)


GRAPHS = {
    "modulated": """
        f = Reshape(style, to_inputs)
        m = Mul(W, f)
        p = Mul(m, m)
        q = ReduceSum<keepdims = 1>(p, summed)
        e = Add(q, tiny)
        r = Sqrt(e)
        d = Reciprocal(r)
        n = Mul(m, d)
        w = Reshape(n, whole)
        y = Conv<pads = [1, 1, 1, 1]>(x, w)""",
    "divided, by a number, too": """
        f = Reshape(style, to_inputs)
        t = ReduceMean<keepdims = 0>(style)
        a = Div(W, f)
        m = Mul(t, a)
        w = Reshape(m, whole)
        y = Conv<strides = [2, 1]>(x, w)""",
    "transposed": """
        f = Reshape(style, to_inputs)
        m = Mul(W, f)
        s = Reshape(m, whole)
        w = Transpose<perm = [1, 0, 2, 3]>(s)
        y = ConvTranspose<strides = [2, 2]>(x, w)""",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_numbers(name: str) -> None:
    text = f"""g (float[1,8,9,7] x, float[1,8] style) => (float[] y)
        <int64[5] to_inputs = {{1, 1, 8, 1, 1}}, int64[4] whole = {{12, 8, 3, 3}},
         int64[3] summed = {{2, 3, 4}}, float tiny = {{1e-8}}> {{ {GRAPHS[name]} }}"""
    rng = np.random.default_rng(0)
    model = parsed(text, opset=18, W=rng.standard_normal((1, 12, 8, 3, 3), "float32"))
    style = rng.uniform(0.5, 2, (1, 8)).astype("float32")
    check_like_peer(model, x=rng.standard_normal((1, 8, 9, 7), "float32"), style=style)
    folded = fold(relay.frontend.from_onnx(model)[0], CPU)
    assert not FindFallbacks(CPU)(folded).fallbacks
    assert "concat" not in folded.script(), "no columns are copied for a computed weight"


@pytest.mark.parametrize(("weights", "styles"), [(1e-3, 1e20), (1e12, 1e-25), (1e25, 1e-12)])
def test_squares_overflow_where_those_of_the_products_do(weights: float, styles: float) -> None:
    """A style's square alone was infinite."""
    text = """g (float[1,8] style) => (float[] y) <int64[4] to_inputs = {1, 8, 1, 1}> {
        f = Reshape(style, to_inputs)
        m = Mul(W, f)
        p = Mul(m, m)
        y = ReduceSum<keepdims = 0>(p, summed) }"""
    rng = np.random.default_rng(0)
    filters = (weights * rng.standard_normal((12, 8, 3, 3))).astype("float32")
    model = parsed(text, opset=18, W=filters, summed=np.array([1, 2, 3]))
    check_like_peer(model, style=(styles * rng.uniform(1, 2, (1, 8))).astype("float32"))
