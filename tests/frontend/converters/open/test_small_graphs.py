"""Operators over extents that only a run knows, against ONNX Runtime.

``Compress`` makes such extents: a mask of the test chooses what they are.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_node import Array, assert_same, onnx_runtime

import tvm_neocpu
from tvm_neocpu.core.errors import RunError

_HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def _check(text: str, *runs: tuple[Array, ...]) -> None:
    """One build, run on several inputs."""
    model = onnx.parser.parse_model(_HEAD + text)
    session = tvm_neocpu.Session(model, cache=False, threads=1)
    names = [value.name for value in model.graph.input]
    for inputs in runs:
        found = session.run(dict(zip(names, inputs, strict=True)))
        expected = onnx_runtime(model, inputs)
        assert_same([found[value.name] for value in model.graph.output], expected)


def _first(count: int, length: int) -> Array:
    return np.arange(length) < count


def _values(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype("float32")


def test_broadcasting_is_decided_at_run_time() -> None:
    text = """g (float[6,3] x, float[6,3] y, bool[6] p, bool[6] q)
        => (float[N,3] sum, bool[N,3] less, float[N,3] chosen, float[M,K,3] table, float[N,3] most)
    {
        axis = Constant<value = int64[1] {1}>()
        a = Compress<axis = 0>(x, p)
        b = Compress<axis = 0>(y, q)
        sum = Add(a, b)
        less = Less(b, a)
        chosen = Where(less, a, b)
        column = Unsqueeze(a, axis)
        table = Mul(column, b)
        most = Max(a, b, sum)
    }"""
    x, y = _values(6, 3), _values(6, 3) * 2
    pairs = [(4, 4), (1, 5), (5, 1), (1, 1), (0, 0), (0, 1), (1, 0)]
    _check(text, *((x, y, _first(p, 6), _first(q, 6)) for p, q in pairs))


def test_a_number_meets_an_extent() -> None:
    text = """g (float[6] x, float[4] y, bool[6] p) => (float[4] sum, float[4] other) {
        a = Compress<axis = 0>(x, p)
        sum = Add(a, y)
        other = Sub(y, a)
    }"""
    _check(text, *((_values(6), _values(4), _first(count, 6)) for count in (4, 1)))


def test_extents_that_do_not_fit_are_told() -> None:
    text = """g (float[6] x, bool[6] p, bool[6] q) => (float[N] sum) {
        a = Compress<axis = 0>(x, p)
        b = Compress<axis = 0>(x, q)
        sum = Add(a, b)
    }"""
    model = onnx.parser.parse_model(_HEAD + text)
    session = tvm_neocpu.Session(model, cache=False, threads=1)
    with pytest.raises(RunError, match=r"Add: the extents of this run do not fit: it needs .*kept"):
        session.run({"x": _values(6), "p": _first(2, 6), "q": _first(3, 6)})


def test_an_extent_that_is_no_number_is_told_with_the_node() -> None:
    text = """g (float[6] x, float[4] y, bool[6] p) => (float[4] sum) {
        a = Compress<axis = 0>(x, p)
        sum = Add(a, y)
    }"""
    model = onnx.parser.parse_model(_HEAD + text)
    model.graph.node[1].name = "the sum"
    session = tvm_neocpu.Session(model, cache=False, threads=1)
    with pytest.raises(RunError, match=r"Add 'the sum': .*needs kept == 1 or kept == 4"):
        session.run({"x": _values(6), "y": _values(4), "p": _first(3, 6)})


def test_shapes_are_computed_of_extents() -> None:
    """Reshape, Expand, ConstantOfShape and Range of Shape, Gather and Concat."""
    text = """g (float[6,4] x, bool[6] p)
        => (float[N,2,2] parts, float[M] flat, float[N,4,3] wide, int64[K] count, float[N,4] ones,
            float[A,B] tiled, int64[R] numbers)
    {
        zero = Constant<value = int64 {0}>()
        one = Constant<value = int64 {1}>()
        first = Constant<value = int64[1] {0}>()
        last = Constant<value = int64[1] {-1}>()
        two = Constant<value = int64[2] {2, -1}>()
        three = Constant<value = int64[1] {3}>()
        a = Compress<axis = 0>(x, p)
        shape = Shape(a)
        n = Gather<axis = 0>(shape, zero)
        count = Range(zero, n, one)
        rows = Unsqueeze(n, first)
        target = Concat<axis = 0>(rows, two)
        parts = Reshape(a, target)
        flat = Reshape(parts, last)
        column = Unsqueeze(a, last)
        to = Concat<axis = 0>(shape, three)
        wide = Expand(column, to)
        ones = ConstantOfShape<value = float[1] {1}>(shape)
        repeats = Concat<axis = 0>(rows, three)
        tiled = Tile(a, repeats)
        twice = Add(n, n)
        numbers = Range(n, twice, one)
    }"""
    _check(text, *((_values(6, 4), _first(count, 6)) for count in (5, 1)))


def test_an_extent_as_a_truth_value() -> None:
    text = """g (float[6,3] x, bool[6] p) => (int64[2] whole, int64[2] chosen) {
        a = Compress<axis = 0>(x, p)
        shape = Shape(a)
        other = Add(shape, shape)
        filled = Cast<to = 9>(shape)
        whole = Cast<to = 7>(filled)
        chosen = Where(filled, other, shape)
    }"""
    _check(text, *((_values(6, 3), _first(count, 6)) for count in (4, 0)))


def test_a_reduction_of_extents_along_no_axis() -> None:
    text = """g (float[6,3] x, bool[6] p) => (int64[2] same, int64[1] total) {
        a = Compress<axis = 0>(x, p)
        shape = Shape(a)
        same = ReduceSum<noop_with_empty_axes = 1>(shape)
        total = ReduceSum(shape)
    }"""
    _check(text, (_values(6, 3), _first(4, 6)))


def test_a_sum_of_nothing_is_zero() -> None:
    text = """g (float[6,3] x, bool[6] p)
        => (float whole, float[3] columns, float[1,3] norms, float[3,3] product, int64 count)
    {
        first = Constant<value = int64[1] {0}>()
        a = Compress<axis = 0>(x, p)
        whole = ReduceSum<keepdims = 0>(a)
        columns = ReduceSum<keepdims = 0>(a, first)
        norms = ReduceL2<axes = [0]>(a)
        turned = Transpose<perm = [1, 0]>(a)
        product = MatMul(turned, a)
        numbers = Cast<to = 7>(a)
        count = ReduceSum<keepdims = 0>(numbers)
    }"""
    # A run in between leaves what it computed where the next one writes.
    _check(text, *((_values(6, 3), _first(count, 6)) for count in (4, 0, 6, 0)))


def test_the_first_of_the_largest() -> None:
    text = """g (float[6,3] x, bool[6] p) => (int64[3] rows, float[3] most, float[N,3] shares) {
        a = Compress<axis = 0>(x, p)
        rows = ArgMax<axis = 0, keepdims = 0>(a)
        most = ReduceMax<axes = [0], keepdims = 0>(a)
        shares = Softmax<axis = 0>(a)
    }"""
    _check(text, *((_values(6, 3), _first(count, 6)) for count in (4, 1)))


def test_parts_of_what_a_run_selects() -> None:
    """Slice, Split, Concat, Gather, GatherElements, GatherND."""
    text = """g (float[7,4] x, bool[7] p)
        => (float[A,4] head, float[B,4] tail, float[C,2] back, float[5,4] low, float[D,4] high,
            float[E,4] both, float[4] row, float[F] found, float[G,4] elements, float[H,8] wide)
    {
        axis0 = Constant<value = int64[1] {0}>()
        axis1 = Constant<value = int64[1] {1}>()
        three = Constant<value = int64[1] {3}>()
        minus = Constant<value = int64[1] {-2}>()
        end = Constant<value = int64[1] {9223372036854775807}>()
        begin = Constant<value = int64[1] {-9223372036854775807}>()
        last = Constant<value = int64 {-1}>()
        a = Compress<axis = 0>(x, p)
        head = Slice(a, axis0, three, axis0)
        tail = Slice(a, minus, end, axis0)
        back = Slice(a, end, begin, axis1, minus)
        five = Constant<value = int64[1] {5}>()
        shape = Shape(a)
        n = Slice(shape, axis0, axis1, axis0)
        rest = Sub(n, five)
        lengths = Concat<axis = 0>(five, rest)
        low, high = Split<axis = 0>(a, lengths)
        both = Concat<axis = 0>(tail, head, a)
        row = Gather<axis = 0>(a, last)
        zero = Constant<value = float {0}>()
        some = Greater(a, zero)
        places = NonZero(some)
        rows = Transpose<perm = [1, 0]>(places)
        found = GatherND(a, rows)
        order = Cast<to = 7>(some)
        elements = GatherElements<axis = 0>(a, order)
        wide = Concat<axis = 1>(a, elements)
    }"""
    _check(text, *((_values(7, 4), _first(count, 7)) for count in (7, 6)))


def test_reductions_and_products() -> None:
    text = """g (float[6,4] x, float[4,5] w, float[5] bias, bool[6] p)
        => (float[4] sum, float[N] mean, float[N,5] dense, float[N,5] product, float[N,N2] gram,
            float[N,4] soft, int64[N] best, float[4,4] square)
    {
        a = Compress<axis = 0>(x, p)
        axis = Constant<value = int64[1] {0}>()
        sum = ReduceSum<keepdims = 0>(a, axis)
        mean = ReduceMean<axes = [1], keepdims = 0>(a)
        dense = Gemm<alpha = 0.5>(a, w, bias)
        product = MatMul(a, w)
        turned = Transpose<perm = [1, 0]>(a)
        gram = MatMul(a, turned)
        square = MatMul(turned, a)
        soft = Softmax<axis = 1>(a)
        best = ArgMax<axis = 1, keepdims = 0>(a)
    }"""
    given = (_values(6, 4), _values(4, 5), _values(5))
    _check(text, *((*given, _first(count, 6)) for count in (5, 1)))


def test_the_k_of_a_run() -> None:
    """``min(k, n)``, which detectors write as a reduction of a Concat."""
    text = """g (float[9] x, bool[9] p) => (float[K] values, int64[K] places) {
        three = Constant<value = int64[1] {3}>()
        zero = Constant<value = int64[1] {0}>()
        a = Compress<axis = 0>(x, p)
        shape = Shape(a)
        both = Concat<axis = 0>(three, shape)
        k = ReduceMin<keepdims = 0>(both)
        row = Reshape(k, zero2)
        values, places = TopK(a, row)
    }""".replace("row = Reshape(k, zero2)", "row = Unsqueeze(k, zero)")
    _check(text, *((_values(9), _first(count, 9)) for count in (7, 2)))
