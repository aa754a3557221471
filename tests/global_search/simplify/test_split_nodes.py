"""Splitting nodes changes the shape of a problem and no price."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.simplify.split_nodes import split_nodes
from tvm_neocpu.global_search.solvers.min_marginals import min_marginals

READS = [0, 0, 1, 1]
WRITES = [7, 9, 7, 9]  # class numbers may be any integers


@pytest.fixture
def chain():
    """Three nodes of four candidates. Edges depend on what one node writes and the next reads."""
    rng = np.random.default_rng(0)
    moves = rng.random((2, 2))
    matrix = moves[np.ix_([0, 1, 0, 1], READS)]
    return LayoutProblem(rng.random((3, 4)), {(0, 1): matrix, (1, 2): matrix})


def test_prices_stay(chain):
    parts = split_nodes(chain, {i: [READS, WRITES] for i in range(3)})
    assert len(parts) == 3 + 4
    assert max(costs.size for costs in parts.node_costs[3:]) == 2
    for whole, split in zip(min_marginals(chain), min_marginals(parts)[:3], strict=True):
        np.testing.assert_allclose(split, whole, rtol=1e-12)


def test_a_partition_is_not_used_if_an_edge_tells_its_members_apart(chain):
    parts = split_nodes(chain, {0: [READS], 1: [READS]})
    assert len(parts) == 3 + 1
    np.testing.assert_allclose(min_marginals(parts)[2], min_marginals(chain)[2], rtol=1e-12)


def test_nothing_is_split_without_gain(chain):
    assert len(split_nodes(chain, {})) == 3
    assert len(split_nodes(chain, {1: [[0, 1, 2, 3]]})) == 3
    assert split_nodes(chain, {}).edge_costs.keys() == chain.edge_costs.keys()
