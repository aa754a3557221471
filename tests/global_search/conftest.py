"""Graph shapes and random problems for the tests of the global search."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem

Edges = list[tuple[int, int]]


def _grid(rows: int, columns: int) -> Edges:
    node = np.arange(rows * columns).reshape(rows, columns)
    across = zip(node[:, :-1].ravel().tolist(), node[:, 1:].ravel().tolist(), strict=True)
    down = zip(node[:-1].ravel().tolist(), node[1:].ravel().tolist(), strict=True)
    return [*across, *down]


def _chain(count: int) -> Edges:
    return list(itertools.pairwise(range(count)))


SHAPES: dict[str, Edges] = {
    "chain": _chain(7),
    "tree": [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)],
    "residual": [*_chain(7), (0, 3), (3, 6)],
    "ladder": _grid(2, 4),
    "grid": _grid(3, 3),
    "dense": list(itertools.combinations(range(6), 2)),
    "disconnected": [(0, 1), (1, 2), (0, 2), (4, 5)],
}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> Edges:
    return SHAPES[request.param]


@pytest.fixture(scope="session")
def clique() -> Callable[[int], Edges]:
    return lambda count: list(itertools.combinations(range(count), 2))


@pytest.fixture(scope="session")
def grid() -> Callable[[int, int], Edges]:
    return _grid


@pytest.fixture(scope="session")
def random_problem() -> Callable[..., LayoutProblem]:
    """`random_problem(edges, seed, max_size=4, min_size=2, forbidden=0.0, scale=1.0)`.

    Every node has `min_size` to `max_size` candidates. Costs are in (0, scale). A share `forbidden`
    of all pairs is forbidden.
    """

    def make(
        edges: Edges,
        seed: int,
        max_size: int = 4,
        min_size: int = 2,
        forbidden: float = 0.0,
        scale: float = 1.0,
    ) -> LayoutProblem:
        rng = np.random.default_rng(seed)
        count = 1 + max((max(edge) for edge in edges), default=0)
        sizes = rng.integers(min_size, max_size + 1, count)

        def matrix(rows: int, columns: int) -> np.ndarray:
            costs = scale * rng.random((rows, columns))
            return np.where(rng.random((rows, columns)) < forbidden, np.inf, costs)

        nodes = [scale * rng.random(size) for size in sizes]
        return LayoutProblem(nodes, {(i, j): matrix(sizes[i], sizes[j]) for i, j in edges})

    return make


@pytest.fixture(scope="session")
def different() -> np.ndarray:
    """The matrix of an edge whose two nodes, of two candidates each, must take different ones."""
    return np.array([[np.inf, 0.0], [0.0, np.inf]])
