"""Loops that a user wrote: what runs once for each image, and what only looks so."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tvm_neocpu.relay_passes.batches.image_loops import why_mixed


@T.prim_func(private=True, s_tir=True)
def of_each_image(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j in T.grid(n, T.int64(4)):
        with T.sblock("row"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def where_few(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j in T.grid(n, T.int64(4)):
        with T.sblock("row"):
            v, w = T.axis.remap("SS", [i, j])
            T.where(i < T.int64(8))
            out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def where_many(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j in T.grid(n, T.int64(4)):
        with T.sblock("row"):
            v, w = T.axis.remap("SS", [i, j])
            T.where(T.int64(8) < n)
            out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def within_a_row(x: T.handle, y: T.handle):
    """A tail of columns is every image's own."""
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j, k in T.grid(n, T.int64(2), T.int64(3)):
        with T.sblock("row"):
            v = T.axis.spatial(n, i)
            w = T.axis.spatial(T.int64(4), j * T.int64(3) + k)
            T.where(j * T.int64(3) + k < T.int64(4))
            out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def if_few(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j in T.grid(n, T.int64(4)):
        if n < T.int64(8):
            with T.sblock("row"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def first_eight(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j in T.grid(T.int64(8), T.int64(4)):
        with T.sblock("row"):
            v = T.axis.spatial(n, i)
            w = T.axis.spatial(T.int64(4), j)
            out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def as_often_as_images(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for _again, i, j in T.grid(n, n, T.int64(4)):
        with T.sblock("row"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = data[v, w] + out[v, w]


@T.prim_func(private=True, s_tir=True)
def triangle(x: T.handle, y: T.handle):
    """Later images get more columns."""
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i in range(n):
        for j in range(T.min(i, T.int64(4))):
            with T.sblock("row"):
                v = T.axis.spatial(n, i)
                w = T.axis.spatial(T.int64(4), j)
                out[v, w] = data[v, w] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def from_the_second(x: T.handle, y: T.handle):
    n = T.int64()
    data = T.match_buffer(x, (n, T.int64(4)))
    out = T.match_buffer(y, (n, T.int64(4)))
    for i, j in T.grid(n, T.int64(4)):
        with T.sblock("row"):
            v = T.axis.spatial((T.int64(1), n), i + T.int64(1))
            w = T.axis.spatial(T.int64(4), j)
            out[v, w] = data[v, w] + T.float32(1)


@pytest.mark.parametrize("func", [of_each_image, within_a_row], ids=lambda each: each.__name__)
def test_every_image_alike(func: tirx.PrimFunc) -> None:
    assert why_mixed(func, "loops") is None


@pytest.mark.parametrize(
    "func",
    [
        where_few,
        where_many,
        if_few,
        first_eight,
        as_often_as_images,
        triangle,
        from_the_second,
    ],
    ids=lambda each: each.__name__,
)
def test_some_images_otherwise(func: tirx.PrimFunc) -> None:
    assert why_mixed(func, "loops") == "loops may mix the images"
