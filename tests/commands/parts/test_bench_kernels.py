"""`bench kernels`: its report over single workloads, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from samples import HOST

from tvm_neocpu.commands.bench import main
from tvm_neocpu.commands.parts import bench_kernels
from tvm_neocpu.contrib.kernels import measure
from tvm_neocpu.targets import CompileTarget


def test_the_report_on_named_workloads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "MIN_REPEAT_MS", 0)
    asked: list[str] = []

    def bandwidth(_: CompileTarget, dtype: str) -> float:
        asked.append(dtype)
        return 10.0

    monkeypatch.setattr(bench_kernels, "read_bandwidth", bandwidth)
    argv = ["kernels", "--workload", "16x7x7->32 3x3 p1", "--workload", "dense 1x64->32"]
    assert main([*argv, "--tries", "1", "--threads", "1", "--json", "out.json"]) == 0
    assert "effective GFLOP/s" in capsys.readouterr().out
    report = json.loads(Path("out.json").read_text())
    assert asked == ["float32"]
    assert report["network"] is None
    assert report["read_gbytes_per_second"] == 10.0
    chosen = [timed for timed in report["kernels"] if timed["untuned_choice"]]
    assert [timed["workload"] for timed in chosen] == ["16x7x7->32 3x3 p1", "dense 1x64->32"]
    assert report["untuned_seconds"] == pytest.approx(sum(timed["seconds"] for timed in chosen))


def test_layers_in_integers_against_the_peak_of_their_instruction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workload that says its types keeps them; the others become those of a quantised network."""
    monkeypatch.setattr(measure, "MIN_REPEAT_MS", 0)
    monkeypatch.setattr(bench_kernels, "read_bandwidth", lambda *_: 10.0)
    layers = ["16x7x7->32 3x3 p1", "16x7x7->16 1x1 uint8 x int16"]
    argv = ["kernels", "--tries", "1", "--threads", "1", "--json", "out.json"]
    for layer in layers:
        argv += ["--workload", layer]
    assert main([*argv, "--precision", "int8"]) == 0
    report = json.loads(Path("out.json").read_text())
    chosen = [timed for timed in report["kernels"] if timed["untuned_choice"]]
    assert [timed["workload"] for timed in chosen] == [
        "16x7x7->32 3x3 p1 uint8 x int8",
        layers[1],
    ]
    # Which of them depends on the CPU.
    direct = {"conv2d_NCHWc_int", "conv2d_NCHWc_int_split"}
    direct |= set() if HOST.cpu.matrix is None else {"conv2d_NCHWc_int_amx"}
    assert {timed["template"] for timed in chosen} <= direct
    peaks = {round(timed["peak_gflops"]) for timed in chosen}
    assert report["untuned_share_of_peak"] > 0 and min(peaks) > 0
    assert "of peak" in capsys.readouterr().out


def test_layers_in_bf16(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that a kernel multiplies in bf16; a CPU without the instruction is refused."""
    monkeypatch.setattr(measure, "MIN_REPEAT_MS", 0)
    monkeypatch.setattr(bench_kernels, "read_bandwidth", lambda *_: 10.0)
    argv = ["kernels", "--workload", "16x7x7->32 3x3 p1", "--workload", "16x7x7->16 3x3 g16"]
    argv += ["--tries", "1", "--threads", "1", "--precision", "bf16", "--json", "out.json"]
    if HOST.cpu.bf16 is None:
        assert main(argv) == 2
        complaint = capsys.readouterr().err
        assert complaint.startswith("error: --precision bf16: ") and complaint.count("\n") == 1
        return
    assert main(argv) == 0
    kernels = json.loads(Path("out.json").read_text())["kernels"]
    text = "16x7x7->32 3x3 p1 float32 x bfloat16 -> float32 -> float32"
    assert {timed["workload"] for timed in kernels} == {text}


def test_a_text_that_is_no_workload_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--workload", "dense 0x1->2"]) == 2
    complaint = capsys.readouterr().err
    assert complaint == "error: 'dense 0x1->2' has a size of 0\n"
