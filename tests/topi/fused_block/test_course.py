"""Bands and the rows that they need: against a layer-by-layer simulation of one image column."""

from __future__ import annotations

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.network.layer_group import Bands
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.fused_block.course import Course, Rows

# A 3x3 layer behind a 1x1 layer, both of 8 rows; then a 1x1 layer.
FLAT = Rows(tile=2, out=8, height=8, stride=1, reach=1, padding=0)
DEEP = Rows(tile=2, out=8, height=8, stride=1, reach=3, padding=1)


def test_a_run_computes_each_tile_once() -> None:
    course = Course((FLAT, DEEP, FLAT), Bands(2, 4))
    assert [course.ends(band)[0] for band in range(4)] == [2, 3, 4, 4]
    assert course.repeats == (1.0, 1.0, 1.0)
    assert course.kept == (5, 2)


def test_bands_by_themselves_compute_their_halos() -> None:
    course = Course((FLAT, DEEP, FLAT), Bands(2))
    assert [course.starts(band)[0] for band in range(4)] == [0, 0, 1, 2]
    assert course.repeats == (10 / 4, 1.0, 1.0)
    assert course.kept == (6, 2)


def test_a_tile_of_a_1x1_layer_is_the_band() -> None:
    course = Course((FLAT, DEEP, FLAT), Bands(2, 4))
    assert [course.is_band(at) for at in range(3)] == [False, True, True]


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Layers of any strides, halos and paddings that fit each other."""
    height = draw(st.integers(1, 16))
    layers = [Rows(draw(st.sampled_from(factors(height))), height, height, 1, 1, 0)]
    for _ in range(draw(st.integers(1, 3))):
        stride, reach = draw(st.integers(1, 3)), draw(st.integers(1, 5))
        padding, below = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        out = (height + padding + below - reach) // stride + 1
        if out < 1:
            continue
        tile = draw(st.sampled_from(factors(out)))
        layers.append(Rows(tile, out, height, stride, reach, padding))
        height = out
    count = layers[-1].tiles
    return Course(tuple(layers), Bands(layers[-1].tile, draw(st.integers(1, count))))


@settings(max_examples=examples(300))
@given(course=courses())
def test_every_tile_of_a_layer_has_one_owner_or_the_layer_is_not_computed_whole(
    course: Course,
) -> None:
    """A band owns what it computes and the band above does not need."""
    for at, layer in enumerate(course.layers):
        owned: list[int] = []
        for band in range(course.count):
            before = course.ends(band - 1)[at] if band else 0
            opens = band % course.bands.run == 0
            begin = course.starts(band)[at] if opens else course.ends(band - 1)[at]
            owned += range(max(before, begin), course.ends(band)[at])
        assert len(set(owned)) == len(owned)
        assert (at in course.whole) == (owned == list(range(layer.tiles)))


def test_a_stride_without_a_halo_leaves_rows_out() -> None:
    thin = Rows(tile=1, out=4, height=8, stride=2, reach=1, padding=0)
    flat = Rows(tile=1, out=8, height=8, stride=1, reach=1, padding=0)
    assert Course((flat, thin), Bands(1)).whole == {1}


@settings(max_examples=examples(300))
@given(course=courses())
def test_every_row_that_is_read_is_there_and_not_overwritten(course: Course) -> None:
    rings: list[dict[int, int]] = []
    computed = [0] * len(course.layers)
    for band in range(course.count):
        opens = band % course.bands.run == 0
        if opens:  # another core
            rings = [{} for _ in course.kept]
        begins = course.starts(band) if opens else course.ends(band - 1)
        for at, (first, end) in enumerate(zip(begins, course.ends(band), strict=True)):
            layer = course.layers[at]
            for tile in range(first, end):
                computed[at] += 1
                for row in range(tile * layer.tile, (tile + 1) * layer.tile):
                    begin = row * layer.stride - layer.padding
                    for read in range(max(0, begin), min(layer.height, begin + layer.reach)):
                        if at:
                            assert rings[at - 1][read % course.kept[at - 1]] == read
                    if at < len(rings):
                        rings[at][row % course.kept[at]] = row
        assert computed[-1] == band + 1
    shares = zip(computed, course.layers, strict=True)
    assert course.repeats == pytest.approx([n / layer.tiles for n, layer in shares])
