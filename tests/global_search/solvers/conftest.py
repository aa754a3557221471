"""A hard problem for the tests of `auto` and its stages."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[0.0, 0.15])
def hard(request, random_problem, clique):
    """A problem that neither reductions nor bounds solve."""
    return random_problem(clique(7), seed=3, max_size=6, min_size=6, forbidden=request.param)
