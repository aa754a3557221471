"""Which batches get code of their own."""

from __future__ import annotations

import pytest

from tvm_neocpu.relay_passes.batches.sizes import (
    RUN_SECONDS,
    TOLERANCE,
    chunks,
    worthwhile_sizes,
)


def test_a_batch_is_a_sum_of_sizes_the_largest_first() -> None:
    assert chunks(7, (1, 2, 4)) == (4, 2, 1)
    assert chunks(8, (1, 2, 4)) == (4, 4)
    assert chunks(3, (1,)) == (1, 1, 1)


def test_a_network_whose_images_cost_all_needs_no_second_size() -> None:
    assert worthwhile_sizes(one=20e-3, largest=160e-3, max_batch=8) == (1,)


def test_a_network_of_large_weights_has_code_for_every_batch() -> None:
    assert worthwhile_sizes(one=40e-3, largest=200e-3, max_batch=8) == (1, 2, 3, 4, 5, 6, 7, 8)


def test_two_images_may_gain_what_many_lose_to_the_caches() -> None:
    assert worthwhile_sizes(one=3.63e-3, largest=29.1e-3, max_batch=8, two=7.06e-3) == (1, 2)


@pytest.mark.parametrize("once", [0.0, 1e-4, 3e-4, 1e-3])
def test_no_batch_takes_longer_than_the_tolerance(once: float) -> None:
    each = 5e-3
    sizes = worthwhile_sizes(once + each, once + 8 * each, 8)
    for batch in range(1, 9):
        longer = (len(chunks(batch, sizes)) - 1) * (once + RUN_SECONDS)
        assert longer <= TOLERANCE * (once + RUN_SECONDS + each * batch) * (1 + 1e-9)


def test_one_is_the_largest_batch() -> None:
    assert worthwhile_sizes(1e-3, 1e-3, 1) == (1,)
