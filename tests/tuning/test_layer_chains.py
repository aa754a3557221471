"""Which layers of a network stand behind each other so that a group may have them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.tuning.layer_chains import chains_of


def dense_run(count: int, **others: object) -> ConvGraph:
    """So many 3x3 layers behind each other."""
    conv = replace(ConvWorkload(1, 16, 28, 28, 16, (3, 3), padding=(1, 1, 1, 1)), **others)
    names = [f"c{at}" for at in range(count)]
    nodes = [GraphNode(name, NodeKind.CONV, "", conv.out_shape, conv) for name in names]
    edges = [GraphEdge(a, b, conv.out_shape, "y") for a, b in pairwise(names)]
    return ConvGraph(tuple(nodes), tuple(edges))


@pytest.mark.parametrize(
    ("count", "pieces"), [(1, []), (2, [2]), (3, [3]), (4, [2, 2]), (7, [3, 2, 2]), (8, [3, 3, 2])]
)
def test_dense_layers_are_offered_in_pieces_of_two_and_three(count: int, pieces: list[int]) -> None:
    chains = list(chains_of(dense_run(count)))
    assert [len(chain.nodes) for chain in chains] == pieces
    assert all(chain.is_stack for chain in chains)
    members = [id for chain in chains for id in chain.members]
    assert len(set(members)) == len(members)


def test_layers_with_groups_of_channels_or_of_one_pixel_are_no_stack() -> None:
    assert not list(chains_of(dense_run(2, groups=2)))
    one_pixel = {"height": 1, "width": 1}
    assert not list(chains_of(dense_run(2, **one_pixel)))
