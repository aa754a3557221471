"""Groups measured and predicted, as a script: its rows, and how it finds a layer's operations."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from onnx_net import Net

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.schedule.onnx_graph import schedule_graph
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind
from tvm_neocpu.topi.fused_block import cost

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "groups" / "group_profiles.py"
SHAPE = (1, 8, 14, 14)


def block() -> Any:
    """Two equal blocks of 1x1, depthwise and 1x1 behind a 3x3 layer."""
    net = Net(SHAPE, biases=True)
    x = net("Relu", net.conv("data", 8, 16, 3, pads=[1] * 4))
    for _ in range(2):
        y = net("Relu", net.conv(x, 16, 48))
        y = net("Relu", net.conv(y, 48, 48, 3, 48, pads=[1] * 4))
        x = net("Add", net.conv(y, 48, 16), x)
    return net.model(x)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    model = block()
    monkeypatch.syspath_prepend(SCRIPT.parent)
    monkeypatch.setattr(model_zoo, "build", lambda name: model)
    monkeypatch.setattr(model_zoo, "input_shape", lambda name: SHAPE)
    monkeypatch.setattr(model_zoo, "find", lambda name: _Entry())
    return runpy.run_path(str(SCRIPT))


class _Entry:
    def sketch(self) -> Any:
        return block()


def test_groups_and_lone_layers_are_rows(
    script: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cost, "apart_seconds", lambda block, cpu: float("inf"))  # groups gain then
    path = tmp_path / "report.json"
    assert script["main"](["blocks", "--json", str(path)]) == 0
    (report,) = json.loads(path.read_text())["networks"]
    sizes = sorted(len(row["layers"]) for row in report["rows"])
    assert sizes == [1, 3, 3]
    for row in report["rows"]:
        assert row["apart_us"] > 0
        assert row["fused_us"] > 0
        assert row["peak_us"] > 0
        assert ("l2_fused_us" in row) == (len(row["layers"]) > 1)
    assert "| 2 | 16x14x14->48 1x1 -> " in capsys.readouterr().out


def test_a_layer_has_its_epilogue(script: dict[str, Any]) -> None:
    folded = open_onnx(block().SerializeToString(), {"data": SHAPE}, "llvm")
    drawn = schedule_graph(block())
    places = script["places_of"](folded.graph, drawn)
    kinds = [[drawn.nodes[at].kind for at in nodes] for nodes in places.values()]
    assert kinds[0] == [OpKind.CONV, OpKind.ELEMENTWISE]
    assert len(kinds) == 7


def test_another_network_is_refused(script: dict[str, Any]) -> None:
    folded = open_onnx(block().SerializeToString(), {"data": SHAPE}, "llvm")
    drawn = schedule_graph(block())
    first = next(at for at, node in enumerate(drawn.nodes) if node.kind is OpKind.CONV)
    nodes = list(drawn.nodes)
    nodes[first] = replace(nodes[first], macs=1)
    with pytest.raises(ValueError, match="is not 8x14x14->16 3x3 p1"):
        script["places_of"](folded.graph, replace(drawn, nodes=tuple(nodes)))
