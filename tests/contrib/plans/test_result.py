"""The figures of a comparison: gain, rank correlation, errors, sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.plans.result import NetworkPlans, everything_else, median_calls
from tvm_neocpu.contrib.plans.runner import CallTime
from tvm_neocpu.contrib.plans.spread import GLOBAL


def test_what_the_figures_come_to(compared: NetworkPlans) -> None:
    network = compared
    assert network.everything_else == everything_else(network.calls) == 5e-4
    assert network.transform_seconds == 4e-4
    (scheme,) = network.schemes
    assert (scheme.calls, scheme.predicted, scheme.in_network) == (3, 3e-3, 5e-3)
    assert network.plan(GLOBAL).error == pytest.approx(0.2)
    assert network.gain == pytest.approx(6 / 5)
    assert network.predicted_gain == pytest.approx(7 / 6)
    assert network.spearman == pytest.approx(1.0)
    low, high = network.gain_quartiles
    assert 1.2 <= low <= high <= 1.5
    assert replace(network, plans=network.plans[:2]).spearman is None


def test_the_rank_correlation_sees_a_wrong_order(compared: NetworkPlans) -> None:
    plans = compared.plans
    swapped = (replace(plans[0], predicted=10e-3), *plans[1:])
    assert replace(compared, plans=swapped).spearman == pytest.approx(-0.5)


def test_calls_of_several_rounds_are_medians() -> None:
    rounds = [[CallTime("f", None, 2, seconds)] for seconds in (1.0, 9.0, 2.0)]
    assert median_calls(rounds) == (CallTime("f", None, 2, 2.0),)
