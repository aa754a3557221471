"""How often Python looks for garbage while a network is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tvm_neocpu.runtime.garbage import SELDOM, garbage_seldom


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_seldom_inside_of_all_builds() -> None:
    one, other = garbage_seldom(), garbage_seldom()
    with one:
        assert gc.get_threshold() == (SELDOM, 10, 10)
        other.__enter__()  # a build in another thread, which ends later
    assert gc.get_threshold() == (SELDOM, 10, 10)
    other.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (SELDOM, 5, 5), (100_000, 10, 10)])
def test_a_process_that_looks_as_seldom_is_left_alone(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with garbage_seldom():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_somebody_sets_inside_stays() -> None:
    with garbage_seldom():
        gc.set_threshold(900, 10, 10)
    assert gc.get_threshold() == (900, 10, 10)
