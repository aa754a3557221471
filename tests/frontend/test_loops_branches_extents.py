"""Loops, branches and extents that only a run knows, one inside another, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
from onnx_node import Array, assert_same, image, onnx_runtime
from onnx_text import parsed

import tvm_neocpu

X = image(6, 3)
FIRST_FOUR = np.arange(6) < 4


def _check(text: str, *runs: tuple[Array, ...]) -> None:
    """One build, run on several inputs."""
    model: onnx.ModelProto = parsed(text, 17)
    session = tvm_neocpu.Session(model, cache=False, threads=1)
    names = [value.name for value in model.graph.input]
    for inputs in runs:
        found = session.run(dict(zip(names, inputs, strict=True)))
        expected = onnx_runtime(model, list(inputs))
        assert_same([found[value.name] for value in model.graph.output], expected)


def test_a_loop_in_a_branch() -> None:
    text = """g (float[6,3] x, bool c, int64 n) => (float[6,3] y) {
        y = If <
            then_branch = t () => (float[6,3] a) {
                a = Loop <body = body (int64 i, bool go, float[6,3] v) =>
                                      (bool goes, float[6,3] vo) {
                    vo = Add(v, x)
                    goes = Identity(go)
                }> (n, , x)
            },
            else_branch = e () => (float[6,3] b) { b = Neg(x) }
        > (c)
    }"""
    runs = [(True, 3), (False, 3), (True, 0)]
    _check(text, *((X, np.array(taken), np.array(count)) for taken, count in runs))


def test_a_loop_over_an_open_extent_in_a_branch() -> None:
    text = """g (float[6,3] x, bool[6] p, bool c, int64 n) => (float[N,3] y) {
        k = Compress<axis = 0>(x, p)
        y = If <
            then_branch = t () => (float[N,3] a) {
                a = Loop <body = body (int64 i, bool go, float[N,3] v) =>
                                      (bool goes, float[N,3] vo) {
                    vo = Add(v, k)
                    goes = Identity(go)
                }> (n, , k)
            },
            else_branch = e () => (float[M,3] b) {
                others = Not(p)
                b = Compress<axis = 0>(x, others)
            }
        > (c)
    }"""
    _check(text, *((X, FIRST_FOUR, np.array(taken), np.array(3)) for taken in (True, False)))


def test_a_trip_selects_elements_and_reads_their_number() -> None:
    text = """g (float[6,3] x, bool[6] p, int64 n) => (float[6,3] y, float[T] sums) {
        zero = Constant<value = int64 {0}>()
        half = Constant<value = float {0.5}>()
        rest = Constant<value = int64[1] {-1}>()
        y, sums = Loop <body = body (int64 i, bool go, float[6,3] v) =>
                                    (bool goes, float[6,3] vo, float s) {
            a = Compress<axis = 0>(v, p)
            shape = Shape(a)
            rows = Gather<axis = 0>(shape, zero)
            number = Cast<to = 1>(rows)
            flat = Reshape(a, rest)
            s = ReduceSum<keepdims = 0>(flat)
            more = Add(v, number)
            vo = Mul(more, half)
            goes = Identity(go)
        }> (n, , x)
    }"""
    _check(text, (X, FIRST_FOUR, np.array(3)), (X, FIRST_FOUR & False, np.array(2)))


def test_a_trip_reads_the_extents_around_the_loop() -> None:
    text = """g (float[6,3] x, bool[6] p, int64 n) => (float[N,3] y, float[T,N,3] all) {
        one = Constant<value = float[1] {1.0}>()
        k = Compress<axis = 0>(x, p)
        shape = Shape(k)
        y, all = Loop <body = body (int64 i, bool go, float[N,3] v) =>
                                   (bool goes, float[N,3] vo, float[N,3] piece) {
            ones = Expand(one, shape)
            more = Add(v, ones)
            vo = Add(more, k)
            piece = Identity(vo)
            goes = Identity(go)
        }> (n, , k)
    }"""
    _check(text, (X, FIRST_FOUR, np.array(3)), (X, np.arange(6) == 2, np.array(2)))
