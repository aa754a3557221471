"""The k-th of equal keys."""

from __future__ import annotations

from tvm_neocpu.core.network.equal_keys import kth_of_equal


def test_the_kth_of_equal_keys() -> None:
    there = [("x", 1), ("y", 2), ("x", 3), ("z", 4)]
    assert kth_of_equal(["x", "x", "y", None, "no", "z", "z"], there) == [
        1,
        3,
        2,
        None,
        None,
        None,
        None,
    ]
