from __future__ import annotations

import itertools

import pytest

from tvm_neocpu.global_search.solvers import brute
from tvm_neocpu.global_search.solvers.methods import solve


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("block", [1, 10, 1 << 16])
def test_every_choice_is_tried_in_blocks_of_any_size(
    seed, block, monkeypatch, random_problem, clique
):
    monkeypatch.setattr(brute, "BLOCK_CHOICES", block)
    problem = random_problem(clique(4), seed, max_size=3)
    choices = itertools.product(*(range(costs.size) for costs in problem.node_costs))
    assert solve(problem, "brute").choice == min(choices, key=problem.cost)
