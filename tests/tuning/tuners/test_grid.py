"""The cost model's order."""

from __future__ import annotations

from tvm_neocpu.tuning.tuners.grid import GridTuner


def test_it_follows_the_cost_model(space, predicted) -> None:
    prices = [predicted(config) for config in GridTuner(space, predicted).propose(100)]
    assert prices == sorted(prices)
