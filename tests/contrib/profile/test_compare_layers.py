"""Layers by their ONNX nodes: ours by workload and place, a peer's by the names that it fused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tvm_neocpu.commands import profile as command
from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.profile import page
from tvm_neocpu.contrib.profile.compare_layers import as_json, compare_layers, means
from tvm_neocpu.contrib.profile.peer_layers import PEERS, OnnxRuntimeLayers, PeerLayer
from tvm_neocpu.contrib.profile.profile_network import PLAIN, Profile, ProfileRow
from tvm_neocpu.contrib.profile.watch_calls import Call
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload

CONV = ConvWorkload(1, 8, 6, 6, 8, (3, 3), padding=(1, 1, 1, 1))


@pytest.fixture
def nodes(make_model: Callable[..., onnx.ModelProto]) -> OnnxNodes:
    """conv a -> relu -> conv b -> conv of another kernel -> pool -> dense."""
    node = onnx.helper.make_node
    made = [
        node("Conv", ["data", "wa"], ["a"], "first", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"], "relu"),
        node("Conv", ["r", "wb"], ["b"], "second", pads=[1, 1, 1, 1]),
        node("Conv", ["b", "wc"], ["c"]),
        node("GlobalAveragePool", ["c"], ["p"], "pool"),
        node("Flatten", ["p"], ["f"], "flat"),
        node("Gemm", ["f", "wd"], ["out"], "dense", transB=1),
    ]
    weights = {"wa": (8, 8, 3, 3), "wb": (8, 8, 3, 3), "wc": (4, 8, 1, 1), "wd": (10, 4)}
    return OnnxNodes(make_model(made, weights=weights), {})


def test_the_kth_of_equal_workloads_is_the_kth_node(nodes: OnnxNodes) -> None:
    pointwise = ConvWorkload(1, 8, 6, 6, 4, (1, 1))
    asked = [CONV, None, CONV, pointwise, DenseWorkload(1, 4, 10)]
    assert nodes.names_of(asked) == ["first", "", "second", "c", "dense"]


def test_a_product_beside_an_image_is_a_convolution_of_one_tap(nodes: OnnxNodes) -> None:
    """A dense layer of four channels, over as many pixels as the node has rows."""
    conv = ConvWorkload(1, 4, 1, 1, 10, (1, 1))
    assert nodes.names_of([conv]) == ["dense"]
    assert nodes.names_of([conv, DenseWorkload(1, 4, 10)]) == ["", "dense"]
    assert nodes.names_of([replace(conv, stride=(2, 2)), replace(conv, width=2)]) == ["", ""]


def test_a_workload_that_may_be_either_node_has_no_name(nodes: OnnxNodes) -> None:
    assert nodes.names_of([CONV]) == [""]
    assert nodes.names_of([CONV] * 3) == [""] * 3
    assert nodes.names_of([DenseWorkload(1, 4, 11)]) == [""]


def test_a_layer_with_dead_channels_is_its_node(nodes: OnnxNodes) -> None:
    """8 -> 4 at 1x1 is no whole vector: a pass makes 16 of the 4."""
    wider = ConvWorkload(1, 8, 6, 6, 16, (1, 1))
    assert nodes.names_of([wider]) == [""]
    assert nodes.names_of([CONV, wider, CONV], changed_by_passes=True) == ["first", "c", "second"]
    two = [wider, replace(wider, out_channels=32)]
    assert nodes.names_of([CONV, *two, CONV], changed_by_passes=True)[1:3] == ["", ""]
    others = [replace(wider, in_channels=4), replace(wider, out_channels=68)]
    for other in others:
        assert nodes.names_of([CONV, other, CONV], changed_by_passes=True)[1] == ""


def test_layers_over_parts_of_the_channels_are_their_node(nodes: OnnxNodes) -> None:
    """Four of 2 of 8 channels; of both nodes they are eight. Three are no node."""
    part = replace(CONV, in_channels=2)
    one = nodes.names_of([CONV, *[part] * 4], changed_by_passes=True)
    assert one == [""] * 5  # which of the two nodes is whole, nobody knows
    assert nodes.names_of([part] * 8, changed_by_passes=True) == ["first"] * 4 + ["second"] * 4
    assert nodes.names_of([part] * 3, changed_by_passes=True) == [""] * 3
    uneven = [replace(CONV, in_channels=3)] * 2
    assert nodes.names_of(uneven, changed_by_passes=True) == [""] * 2


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("first", "relu"), "first"),
        (("relu",), "first"),
        (("c",), "c"),
        (("out",), "dense"),
        (("no",), ""),
    ],
)
def test_a_fused_layer_is_its_convolution(
    nodes: OnnxNodes, names: tuple[str, ...], found: str
) -> None:
    assert nodes.heavy_behind(names) == found


def test_names_of_onnx_runtime() -> None:
    def event(name: str, kind: str, micros: int) -> dict[str, object]:
        return {"cat": "Node", "name": name, "dur": micros, "args": {"op_name": kind}}

    events = [
        event("relu_nchwc_kernel_time", "Conv", 4),
        event("relu_nchwc_kernel_time", "Conv", 8),
        event("relu_nchwc_kernel_time", "Conv", 6),
        event("relu_nchwc_fence_before", "Conv", 1),
        {"cat": "Session", "name": "model_run", "dur": 9},
        event("fused Conv_0_kernel_time", "FusedConv", 5),
        event("pool_kernel_time", "MaxPool", 2),
    ]
    found = OnnxRuntimeLayers.read(OnnxRuntimeLayers.__new__(OnnxRuntimeLayers), events)
    assert found == [
        PeerLayer(("relu",), "Conv", pytest.approx(6e-6), True),
        PeerLayer(("Conv_0",), "FusedConv", pytest.approx(5e-6), True),
        PeerLayer(("pool",), "MaxPool", pytest.approx(2e-6), False),
    ]


def test_all_times_are_in_the_comparison(nodes: OnnxNodes) -> None:
    def row(seconds: float, node: str) -> ProfileRow:
        return ProfileRow(Call("f", 0.0, seconds, 8), "3x3", PLAIN, "", "", 1, node)

    # The first layer is two parts.
    parts = row(0.003, "first"), row(0.001, "first")
    rows = (*parts, row(0.002, "second"), row(0.001, ""))
    profile = Profile("net", "znver3", 1, Ceilings(100.0, 20.0), rows, 0.008)
    layers = [
        PeerLayer(("relu",), "Conv", 0.006, True),
        PeerLayer(("relu",), "Reorder", 0.003, False),
        PeerLayer(("dense",), "Gemm", 0.002, True),
    ]
    found = compare_layers(profile, "onnxruntime", layers, nodes)
    assert [(each.node, each.ratio) for each in found.layers] == [("first", pytest.approx(1.5))]
    assert found.ours_elsewhere == pytest.approx(0.003)
    assert found.theirs_elsewhere == pytest.approx(0.005)
    assert as_json(found)["layers"][0]["peer_ms"] == pytest.approx(6.0)
    text = page.timed_by(profile, found).sections
    assert '<table id="beside">' in text and "onnxruntime ms" in text


def test_a_layer_has_the_mean_of_its_turns() -> None:
    def turn(*seconds: float) -> list[PeerLayer]:
        first, move, again = seconds
        return [
            PeerLayer(("conv",), "Conv", first, True),
            PeerLayer(("conv",), "Reorder", move, False),
            PeerLayer(("conv",), "Reorder", again, False),
        ]

    found = means([turn(4.0, 1.0, 20.0), turn(9.0, 2.0, 10.0), turn(5.0, 3.0, 30.0)])
    assert found == turn(6.0, 2.0, 20.0)


@pytest.mark.peers
@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_times_the_layers_of_a_real_network(peer: str, tiny_cnn: onnx.ModelProto) -> None:
    pytest.importorskip(peer)
    network = Network("tiny", tiny_cnn, {"data": (1, 8, 6, 6)}, threads=1)
    layers = PEERS[peer](network).layers(3)
    nodes = OnnxNodes(tiny_cnn, {})
    found = [nodes.heavy_behind(layer.names) for layer in layers if layer.computes]
    assert sorted(found) == ["conv", "fc"]
    assert all(layer.seconds > 0 for layer in layers if layer.computes)


@pytest.mark.peers
def test_the_command_puts_a_peer_beside_ours(
    tiny_net: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(command, "read_bandwidth", lambda *_: 10.0)
    words = ["--runs", "3", "--compare", "onnxruntime", "--json", "p.json"]
    assert command.main([tiny_net, *words]) == 0
    assert "beside onnxruntime" in capsys.readouterr().out
    layers = json.loads(Path("p.json").read_text())["comparison"]["layers"]
    assert [layer["node"] for layer in layers] == ["conv", "fc"]
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert command.main([tiny_net, "--runs", "1", "--compare", "openvino"]) == 2
    assert "pip install openvino" in capsys.readouterr().err
