"""The schedule command: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tvm_neocpu.commands import schedule
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.scheduling.orders.table import ORDERS
from tvm_neocpu.scheduling.partition.table import PARTITIONERS

MACHINE = (
    resources.files("tvm_neocpu.scheduling.profilers")
    .joinpath("machines", "nvdla-small.toml")
    .read_text(encoding="utf-8")
)


@pytest.mark.parametrize("machine", ["nvdla-small", "nvdla-large", "this-cpu"])
def test_a_network_in_every_form(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["squeezenet1_1", "--machine", machine, "--html", "out.html", "--json", "out.json"]
    assert schedule.main(argv) == 0
    printed = capsys.readouterr().out
    assert "fewer cycles than no fusion" in printed
    found = json.loads(Path("out.json").read_text())
    shown = {(row["partitioner"], row["order"]) for row in found["rows"]}
    names, orders = set(PARTITIONERS) - {"exact"}, set(ORDERS) - {"exact"}
    assert shown == {(name, order) for name in names for order in orders}
    base = next(row for row in found["rows"] if row["partitioner"] == "no-fusion")
    assert base["cycles_to_no_fusion"] == base["dram_to_no_fusion"] == 1
    best = found["best"]
    ids = [node for group in best["groups"] for node in group["nodes"]]
    assert len(ids) == len(set(ids)) == found["nodes"]
    assert sum(group["cycles"] for group in best["groups"]) <= base["cycles"]
    page = Path("out.html").read_text()
    assert page.count('<g class="node">') == found["nodes"]
    assert page.count('<svg class="chart"') == 2
    assert not re.search(r"(src|href)=|url\(", page)


def test_a_small_network_has_the_exact_partition_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert schedule.main(["lenet", "--json", "out.json"]) == 0
    assert re.search(r"^exact +file", capsys.readouterr().out, re.M)
    rows = json.loads(Path("out.json").read_text())["rows"]
    least = min(row["cycles"] for row in rows)
    assert min(row["cycles"] for row in rows if row["partitioner"] == "exact") <= 1.01 * least


def test_a_file_and_a_machine_of_ones_own(tiny_file: str) -> None:
    Path("mine.toml").write_text(MACHINE.replace("nvdla-small", "mine"))
    assert schedule.main([tiny_file, "--machine", "mine.toml", "--json", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text())["machine"] == "mine"


def test_an_operation_that_nobody_knows_is_a_boundary(
    make_model, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        helper.make_node("Relu", ["data"], ["a"]),
        helper.make_node("CumSum", ["a", "axis"], ["b"]),
        helper.make_node("Relu", ["b"], ["out"]),
    ]
    model = make_model(nodes, out_shape=(1, 8, 6, 6))
    model.graph.initializer.append(helper.make_tensor("axis", onnx.TensorProto.INT64, [], [1]))
    onnx.save(model, "cumsum.onnx")
    assert schedule.main(["cumsum.onnx"]) == 0
    assert "boundary: 1 x CumSum, which no profiler knows" in capsys.readouterr().out


def test_a_concat_wider_than_the_buffer_passes_in_pieces(
    make_model, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of 24 channels takes 144 bytes, twice that with the next one; the buffer has 128."""
    nodes = [helper.make_node("Concat", ["data", "data", "data"], ["out"], name="wide", axis=1)]
    onnx.save(make_model(nodes, out_shape=(1, 24, 6, 6)), "wide.onnx")
    small = MACHINE.replace("banks = 32", "banks = 1").replace(
        "bank_bytes = 4096", "bank_bytes = 128"
    )
    Path("small.toml").write_text(small)
    argv = ["wide.onnx", "--machine", "small.toml", "--json", "out.json", "--html", "out.html"]
    assert schedule.main(argv) == 0
    line = "in pieces: 1 x Concat, of which no row fits the buffer"
    assert line in capsys.readouterr().out
    assert line in Path("out.html").read_text()
    found = json.loads(Path("out.json").read_text())
    assert found["in_pieces"] == {"Concat": 1}
    assert max(row["peak_buffer_bytes"] for row in found["rows"]) == 128


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["lenet", "--machine", "tpu"], "there are nvdla-small, nvdla-large, this-cpu, FILE.toml"),
        (["lenet", "--machine", "gone.toml"], "cannot read the machine file gone.toml"),
        (["lenet", "--machine", "broken.toml"], "array.rows must be positive: -8"),
        (["lenet", "--machine", "unknown.toml"], "there is no field 'dram.width'"),
        (["lenet", "--machine", "missing.toml"], "the field dram.latency is missing"),
        (["resnet18", "--machine", "tiny.toml"], "the smallest buffer that would do has"),
        (["nothing"], "'nothing' is neither a file nor a network"),
        (["gone.onnx"], "there is no model file gone.onnx"),
        (["lenet", "--json", "no/where.json"], "cannot write no/where.json"),
        (["lenet", "--shape", "data:x"], "--shape is NAME:1,3,224,224"),
    ],
)
def test_what_it_refuses(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.toml").write_text(MACHINE.replace("rows = 8  ", "rows = -8 "))
    Path("unknown.toml").write_text(MACHINE + "\nwidth = 3\n")
    Path("missing.toml").write_text(MACHINE.replace("latency = 50", ""))
    Path("tiny.toml").write_text(MACHINE.replace("banks = 32", "banks = 1"))
    assert schedule.main(argv) == USER_ERROR
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert text in shown
    assert shown.count("\n") == 1
