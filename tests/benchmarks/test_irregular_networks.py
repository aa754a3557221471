"""The irregular networks are well-formed and as irregular as they say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import onnx
import pytest

from tvm_neocpu.core.network.conv_graph import ConvGraph, NodeKind

FOLDER = Path(__file__).parents[2] / "benchmarks" / "plans"


@pytest.fixture
def irregular(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    import irregular_networks

    return irregular_networks


def check(graph: ConvGraph) -> None:
    """Edges lead from earlier to later nodes and carry what their sources produce."""
    order = {node.id: k for k, node in enumerate(graph.nodes)}
    assert len(order) == len(graph.nodes)
    for edge in graph.edges:
        assert order[edge.src] < order[edge.dst]
        assert graph.by_id[edge.src].out_shape[:2] == edge.shape[:2]
        target = graph.by_id[edge.dst]
        if target.workload is not None:
            assert target.workload.in_shape == edge.shape
    outputs = [node for node in graph.nodes if node.label == "output"]
    assert len(outputs) == 1


def test_the_ladders(irregular: ModuleType) -> None:
    ladder, rails = irregular.ssd_ladder(), irregular.rails(3, 4)
    check(ladder)
    check(rails)
    assert len(ladder.convs) > 90
    assert len(ladder.edges) - len(ladder.nodes) > 20  # the number of independent loops, minus one
    assert len(rails.convs) == 3 * 5
    assert sum(node.kind is NodeKind.JOIN for node in rails.nodes) == 2 * 4


def test_random_networks(irregular: ModuleType) -> None:
    model = irregular.random_network(30, seed=1)
    onnx.checker.check_model(model, full_check=True)
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 30
    assert model == irregular.random_network(30, seed=1)
