"""The explain command: what it prints and writes, from which log, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tvm_neocpu.choose_plan import known_costs, search_plan
from tvm_neocpu.commands import explain
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database import places
from tvm_neocpu.tuning.database.folders import log_folders
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning

TARGET = ["--target", "llvm", "-mcpu=skylake-avx512", "--threads", "2"]


@pytest.fixture(autouse=True)
def without_shipped_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_folders, "PACKAGE", tmp_path / "package")
    monkeypatch.delenv(log_folders.LOGS_VARIABLE, raising=False)


@pytest.fixture(scope="module")
def cpu() -> Cpu:
    return parse_target("llvm -mcpu=skylake-avx512").cpu.with_cores(2)


@pytest.fixture(scope="module")
def graph(cpu: Cpu) -> ConvGraph:
    mod, _ = from_onnx(model_zoo.build("lenet"))
    return ExtractConvGraph(cpu)(fold(mod, cpu))


@pytest.fixture(scope="module")
def plan(graph: ConvGraph, cpu: Cpu) -> Plan:
    return search_plan(graph, cpu, History(cpu.name, 2))


def test_resnet18_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["resnet18", *TARGET, "--html", "out.html", "--json", "out.json"]
    assert explain.main(argv) == 0
    printed = capsys.readouterr().out
    found = json.loads(Path("out.json").read_text())
    deciding = [node for node in found["nodes"] if node["kind"] != "boundary"]
    assert len(deciding) == 21 + 8
    named = [node["onnx_node"] for node in deciding if node["onnx_node"]]
    assert named[0] == "conv1" and len(set(named)) == len(named) == 21
    assert len(re.findall(r"^\| +\d+ \|", printed, re.M)) == len(deciding)
    assert "resnet18 on skylake-avx512, 2 threads" in printed
    assert "proven optimal" in printed
    assert found["optimal"] is True
    for node in deciding:
        assert len(node["alternatives"]) == node["candidates"] - 1
        assert node["label"] in printed
        for other in node["alternatives"]:
            assert other["network_seconds"] >= found["seconds"] * (1 - 1e-9)
    kernels = sum(node["seconds"] for node in found["nodes"])
    moves = sum(move["seconds"] for move in found["transforms"])
    beside = sum(node["sweep_seconds"] for node in found["nodes"])
    assert beside > 0
    assert kernels + beside + moves == pytest.approx(found["seconds"])
    assert found["greedy_seconds"] >= found["seconds"]
    page = Path("out.html").read_text()
    assert page.count('class="node conv"') == 21
    assert page.count('class="node join"') == 8


def test_without_a_log_everything_is_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["lenet", *TARGET]) == 0
    printed = capsys.readouterr().out
    assert "chosen by a search over what is known" in printed
    # Two convolutions with a runner-up, three dense layers with a single scheme.
    assert printed.count("| ~") == 2 * 2 + 3


def test_a_logs_plan_is_explained_and_its_records_are_no_guesses(
    graph: ConvGraph, cpu: Cpu, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    log = TuningLog("x.log")
    candidates, *_ = known_costs(graph, cpu, History(cpu.name, 2))
    for workload, schemes in candidates.items():
        for scheme in schemes:
            log.append(Record(workload, scheme.config, (scheme.seconds,), cpu.name, 2))
    log.append_plan(plan, graph, cpu.name, 2)
    assert explain.main(["lenet", *TARGET, "--log", "x.log"]) == 0
    printed = capsys.readouterr().out
    assert f"chosen by the log's plan ({plan.method})" in printed
    assert "| ~" not in printed
    assert "proven optimal" in printed


def test_times_of_another_thread_count_are_never_used(
    graph: ConvGraph,
    cpu: Cpu,
    plan: Plan,
    user_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = TuningLog(places.user_log(cpu.name), cpu.features)
    for node in graph.convs:
        log.append(Record(node.workload, plan.configs[node.id], (1e-9,), cpu.name, 2))
    log.append_plan(replace(plan, seconds=1e-9), graph, cpu.name, 2)
    alone = [*TARGET[:-1], "1"]
    assert explain.main(["lenet", *alone]) == 0
    found = capsys.readouterr().out
    with pytest.warns(TuningLogWarning, match="holds nothing for this network .* only at 2"):
        assert explain.main(["lenet", *alone, "--log", str(log.path)]) == 0
    named = capsys.readouterr().out
    log.path.unlink()
    assert explain.main(["lenet", *alone]) == 0
    said = "; the logs have plans of it at thread count 2 only"
    assert said in found and found == named
    assert found.replace(said, "") == capsys.readouterr().out


def test_a_stale_plan_is_warned_of(
    graph: ConvGraph, cpu: Cpu, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ConvGraph(graph.nodes[:-1], graph.edges)
    TuningLog("x.log").append_plan(replace(plan, graph=other.hash), other, cpu.name, 2)
    with pytest.warns(TuningLogWarning, match=f"hash {other.hash}, this one is {graph.hash}"):
        assert explain.main(["lenet", *TARGET, "--log", "x.log"]) == 0
    assert "chosen by a search" in capsys.readouterr().out


def test_a_file_with_markup_in_its_names(tiny_cnn: onnx.ModelProto) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(tiny_cnn)
    model.graph.input[0].name = model.graph.node[0].input[0] = "</script><b>[red]"
    onnx.save(model, "tiny.onnx")
    assert explain.main(["tiny.onnx", *TARGET, "--html", "out.html"]) == 0
    assert "<b>" not in Path("out.html").read_text()


BAD = [
    ([], "required: MODEL"),
    (["lenet", "resnet18"], "unrecognized arguments: resnet18"),
    (["nosuch"], "neither a file nor a network"),
    (["lenet", "--log", "missing.log"], "missing.log"),
    (["lenet", "--html", "no/such/folder.html"], "cannot write no/such/folder.html"),
    (["lenet", "--target", "cuda"], "not a CPU"),
]


@pytest.mark.parametrize(("argv", "words"), BAD)
def test_bad_input_is_one_line(
    argv: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        code = explain.main(argv)
    except SystemExit as stop:
        code = stop.code
    assert code == USER_ERROR
    shown, error = capfd.readouterr()
    assert shown == "", "a place that takes no file is told first"
    assert error.startswith("error: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_network_without_any_template_has_no_time(
    volume_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [volume_file, *TARGET, "--html", "out.html", "--json", "out.json"]
    assert explain.main(argv) == 0
    printed = capsys.readouterr().out
    assert "time unknown, the plan covers none of its operations" in printed
    assert "conv3d_transpose 1x2x4x5x6, 2x3x2x2x2 -> 1x3x8x10x12" in printed
    assert "0.000 ms" not in printed + Path("out.html").read_text()
    assert json.loads(Path("out.json").read_text())["seconds"] is None
