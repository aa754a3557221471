"""The bench command: its report over every engine, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from samples import HOST

from tvm_neocpu.commands import bench
from tvm_neocpu.commands.shared import cli
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.contrib.peers import table


def test_bench_reports_every_engine(tiny_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main([tiny_file, "--runs", "3", "--json", "out.json"]) == 0
    printed = capsys.readouterr().out
    report = json.loads(Path("out.json").read_text())
    (network,) = report["networks"]
    assert network["network"] == "tiny"
    for engine in table.ENGINES:
        assert engine.name in printed
        if not engine.installed:
            continue
        figures = network["engines"][engine.name]
        assert len(figures["runs_ms"]) == 3
        assert figures["median_ms"] > 0
        assert figures["largest_error"] < 1e-4
        assert report["versions"][engine.name]
    assert {"machine", "threads", "commit", "time"} <= report.keys()


def test_bench_does_without_peers(
    tiny_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "find_spec", lambda name: name == "tvm_neocpu" or None)
    assert bench.main([tiny_file, "--runs", "1", "--json", "out.json"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("not installed") == 4
    assert "warning: OpenVINO is not installed: pip install openvino\n" in printed.err
    assert "warning: ncnn is not installed: pip install ncnn pnnx\n" in printed.err
    (network,) = json.loads(Path("out.json").read_text())["networks"]
    assert network["best_peer"] is None
    assert network["absent"]["MNN"] == {"state": "not installed", "reason": "pip install MNN"}


def test_bench_says_in_one_line_what_no_template_takes(
    volume_file: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "find_spec", lambda name: name == "tvm_neocpu" or None)
    assert bench.main([volume_file, "--runs", "1"]) == 0
    lines = capfd.readouterr().err.splitlines()
    (said,) = [line for line in lines if "is not installed: pip install" not in line]
    assert said.startswith("warning: no template takes 1 operation of this network, 100.0% of its")
    assert "conv3d_transpose 1x2x4x5x6" in said


def test_bench_wants_a_log_that_exists(tiny_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert bench.main([tiny_file, "--log", "missing.log"]) == USER_ERROR
    assert "missing.log" in capfd.readouterr().err
    assert bench.main([tiny_file, "--json", "no/such/folder.json"]) == USER_ERROR


@pytest.mark.parametrize("command", [["kernels"], ["plan", "lenet"], ["lenet"]], ids=lambda c: c[0])
def test_every_benchmark_tries_its_file_before_it_measures(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(cli, "load_network", loaded.append)
    assert bench.main([*command, "--json", "no/such/folder.json"]) == USER_ERROR
    assert capfd.readouterr().err == (
        "error: cannot write no/such/folder.json: No such file or directory\n"
    )
    assert loaded == []


def test_bench_in_bf16(tiny_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both of our own, against OpenVINO's bf16; a CPU without the instruction is refused."""
    argv = [tiny_file, "--runs", "1", "--precision", "bf16", "--json", "out.json"]
    if HOST.cpu.bf16 is None:
        assert bench.main(argv) == USER_ERROR
        assert "does not multiply in bf16" in capsys.readouterr().err
        return
    assert bench.main(argv) == 0
    report = json.loads(Path("out.json").read_text())
    engines = table.ENGINES_IN["bf16"]
    assert report["precisions"] == {e.name: e.precision for e in engines if e.installed}
    errors = {name: e["largest_error"] for name, e in report["networks"][0]["engines"].items()}
    assert errors["tvm_neocpu fp32"] < 1e-4 and errors["tvm_neocpu"] < 0.2
    # Where the instruction is slow and there are no tiles, layers as small as these stay in fp32.
    gains = HOST.cpu.bf16.products > 1 or HOST.cpu.matrix is not None
    assert (errors["tvm_neocpu"] > 1e-4) == gains
    assert report["networks"][0]["best_peer"] != "tvm_neocpu fp32"


def test_bench_compares_calls_a_second_in_fp32_only(
    tiny_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main([tiny_file, "--hint", "throughput", "--precision", "bf16"]) == USER_ERROR
    assert capsys.readouterr().err.count("\n") == 1
