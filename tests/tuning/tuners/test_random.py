"""The baseline tuner."""

from __future__ import annotations

from tvm_neocpu.tuning.tuners import RandomTuner


def test_seeds_matter(space) -> None:
    assert RandomTuner(space, 1).propose(24) != RandomTuner(space, 2).propose(24)
