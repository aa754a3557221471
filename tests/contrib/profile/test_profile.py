"""Profiles: their arithmetic, the page, the trace; and one of a real network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import onnx
import pytest
from onnx_net import Net

from tvm_neocpu.commands import profile
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.profile import page
from tvm_neocpu.contrib.profile.profile_network import (
    GROUP,
    PLAIN,
    Profile,
    ProfileRow,
    as_json,
    chrome_trace,
    profile_network,
)
from tvm_neocpu.contrib.profile.watch_calls import TURNS, Call
from tvm_neocpu.core.types import Types
from tvm_neocpu.frontend.reading.onnx_nodes import name_of
from tvm_neocpu.topi.fused_block import cost
from tvm_neocpu.topi.recurrence.cost import ALGORITHM as RECURRENCE


@pytest.fixture
def made() -> Profile:
    rows = (
        ProfileRow(
            Call("conv", 0.001, 0.002, 4_000_000),
            "8x6x6->16",
            "direct",
            "8c -> 16c",
            "reg_n=4",
            10**8,
            peak=100.0,
        ),
        ProfileRow(Call("pool", 0.0035, 0.0005, 1_000_000), "pool <x>", PLAIN, "", "", 0),
    )
    return Profile("net", "znver3", 2, Ceilings(100.0, 20.0), rows, 0.0026)


def test_arithmetic(made: Profile) -> None:
    conv, pool = made.rows
    assert conv.gflops == pytest.approx(50.0)
    assert conv.bandwidth == pytest.approx(2.0)
    assert pool.gflops == pool.share_of_peak == 0
    assert made.explained == pytest.approx(0.0025 / 0.0026)
    first = as_json(made)["operations"][0]
    assert first["share_of_peak"] == pytest.approx(0.5)
    assert first["share_of_bandwidth"] == pytest.approx(0.1)


def test_the_machines_own_part_counts(made: Profile) -> None:
    whole = replace(made, machine=0.0001)
    assert whole.operations == pytest.approx(0.0025)
    assert whole.explained == pytest.approx(1.0)
    assert as_json(whole)["machine_ms"] == pytest.approx(0.1)


def test_the_trace(made: Profile) -> None:
    events = chrome_trace(made)["traceEvents"]
    assert [event["ts"] for event in events] == pytest.approx([1000.0, 3500.0])
    assert events[0]["dur"] == pytest.approx(2000.0)


class Tags(HTMLParser):
    """Which tags are open, and what they name outside the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_what_the_page_gets_is_whole_and_loads_nothing(made: Profile) -> None:
    text = page.timed_by(made).sections
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and tags.links == []
    assert tags.seen.count("rect") == 2 and tags.seen.count("circle") == 1
    assert "pool &lt;x&gt;" in text and "<x>" not in text


def test_a_real_network(
    tiny_net: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: 10.0)
    words = ["--runs", "5", "--json", "p.json", "--html", "p.html", "--trace", "t.json"]
    assert profile.main([tiny_net, *words]) == 0
    assert "with the virtual machine's own" in capsys.readouterr().out
    report = json.loads(Path("p.json").read_text())
    operations = report["operations"]
    assert any(row["algorithm"] != PLAIN and row["gflops"] > 0 for row in operations)
    assert sum(row["ms"] for row in operations) == pytest.approx(report["operations_ms"])
    accounted = report["operations_ms"] + report["machine_ms"]
    assert accounted == pytest.approx(report["explained"] * report["wall_ms"])
    assert 0 < report["machine_ms"] < 1
    drawn = Path("p.html").read_text()
    assert drawn.count('class="node ') >= 3  # the convolution, the dense layer, what is between
    assert re.search(r'class="node conv timed".*?--time:hsl.*?>conv<', drawn) and ">fc<" in drawn
    tags = Tags()
    tags.feed(drawn)
    assert tags.open == [] and tags.links == []
    weights_and_maps = 4 * (16 * 8 * 9 + 8 * 36)
    assert max(row["bytes"] for row in operations) >= weights_and_maps
    starts = [row["start_ms"] for row in operations]
    assert starts == sorted(starts)
    assert len(json.loads(Path("t.json").read_text())["traceEvents"]) == len(operations)
    assert Path("p.html").read_text().startswith("<!doctype html>")


def test_others_take_turns_with_the_runs(tiny_net: str) -> None:
    """A peak of the moment is a median of moments between the runs, not one behind them."""
    network = Network("net", onnx.load(tiny_net), {"data": (1, 8, 6, 6)}, threads=1)
    peaks, turns, cores = iter([100.0, 400.0, 200.0, 300.0]), [], set()

    def peak(types: Types, bits: int, count: int) -> float:
        cores.add(count)
        return next(peaks)

    def bandwidth(count: int) -> float:
        cores.add(count)
        return 10.0

    found = profile_network(network, peak, bandwidth, 8, lambda: turns.append(1))
    assert cores == {found.threads}
    assert len(turns) == TURNS and found.ceilings.peak == 250.0
    assert {row.peak for row in found.rows} == {0.0, 250.0}
    profile_network(network, lambda *_: 1.0, lambda _: 10.0, 1, lambda: turns.append(1))
    assert len(turns) == TURNS + 1


def test_loops_written_by_hand_are_a_row(tiny_net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: 10.0)
    net = Net((1, 8, 6, 6))
    values, _ = net.several(2, "TopK", net.conv("data", 8, 8), net.integers(3))
    onnx.save(net.model(values), "best.onnx")
    assert profile.main(["best.onnx", "--runs", "3", "--json", "b.json"]) == 0
    rows = json.loads(Path("b.json").read_text())["operations"]
    assert [row["algorithm"] for row in rows if "best of rows" in row["what"]] == [PLAIN]


def test_a_fused_group_is_one_row(tiny_net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: 10.0)
    monkeypatch.setattr(cost, "apart_seconds", lambda block, cpu: float("inf"))
    net = Net((1, 16, 12, 12))
    depthwise = net.conv(net.conv("data", 16, 16), 16, 16, size=3, group=16)
    model = net.model(net.conv(depthwise, 16, 16))
    onnx.save(model, "group.onnx")
    words = ["group.onnx", "--runs", "3", "--json", "g.json", "--html", "g.html", "--configs"]
    assert profile.main(words) == 0
    rows = json.loads(Path("g.json").read_text())["operations"]
    (group,) = (row for row in rows if row["algorithm"] == GROUP)
    point = "16x12x12->16 1x1"
    assert group["what"] == f"{point} -> 16x12x12->16 3x3 p1 depthwise -> {point}"
    flops = 2 * 16 * 12 * 12 * (16 + 9 + 16)
    assert group["gflops"] * group["ms"] * 1e6 == pytest.approx(flops)
    convs = [name_of(node) for node in model.graph.node if node.op_type == "Conv"]
    assert group["node"] == " -> ".join(convs), "each layer by its node"
    assert group["config"].count("Config(") == 3 and "c -> " in group["layouts"]
    assert Path("g.html").read_text().count("of 3 layers") == 3, "each node has the group's time"


def test_a_recurrent_layer_is_a_row_of_ours(tiny_net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: 10.0)
    net = Net((4, 2, 5))
    values, _, _ = net.several(
        3, "LSTM", "data", net.weight(1, 12, 5), net.weight(1, 12, 3), hidden_size=3
    )
    onnx.save(net.model(values), "lstm.onnx")
    assert profile.main(["lstm.onnx", "--runs", "3", "--json", "l.json"]) == 0
    rows = json.loads(Path("l.json").read_text())["operations"]
    (layer,) = (row for row in rows if row["algorithm"] == RECURRENCE)
    assert layer["what"] == "LSTM 4 steps, batch 2, hidden 3"
    assert layer["gflops"] * layer["ms"] * 1e6 == pytest.approx(2 * 4 * 2 * 12 * 3)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nosuch"], "neither a file nor a network of the zoo"),
        (["net.onnx", "lenet"], "unrecognized arguments: lenet"),
        (["net.onnx", "--html", "no/such.html"], "cannot write no/such.html"),
        (["net.onnx", "--target", "llvm", "-mcpu=nosuch"], "does not know -mcpu=nosuch"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], text: str, tiny_net: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        code = profile.main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == USER_ERROR
    error = capfd.readouterr().err
    assert text in error and error.count("\n") == 1
