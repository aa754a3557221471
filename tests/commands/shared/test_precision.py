"""--precision, --max-error and --accuracy-data of compile, tune and explain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from machine_here import prove_at_once
from onnx_net import Net
from samples import HOST

from tvm_neocpu.commands import compile as compile_command
from tvm_neocpu.commands import explain, tune
from tvm_neocpu.tuning.database.log import TuningLog

TARGET = ["--target", "llvm", "-mcpu=cascadelake", "--threads", "1"]
DATA = ["--accuracy-data", "data.npz"]


@pytest.fixture(autouse=True)
def files() -> None:
    rng = np.random.default_rng(0)
    net = Net((1, 32, 14, 14), rng=rng)
    x = net("Relu", net.conv("data", 32, 64, 3))
    onnx.save(net.model(net.conv(x, 64, 64, 3)), "net.onnx")
    np.savez("data.npz", data=rng.standard_normal((4, 32, 14, 14), dtype="float32"))


def test_explain_says_what_is_in_int8_and_what_the_bound_costs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["net.onnx", *TARGET, "--precision", "auto", "--max-error", "0.02", *DATA]
    assert explain.main([*argv, "--json", "out.json"]) == 0
    printed = capsys.readouterr().out
    assert "net: precision auto, bound 0.02: 2 of 2 layers in int8, 100.0% of" in printed
    assert "the bound costs 0.0%" in printed and "uint8 x int8" in printed
    found = json.loads(Path("out.json").read_text())["precision"]
    assert found["chosen_seconds"] < found["fp32_seconds"]
    assert found["measured_error"] <= 0.02
    assert [layer["int8"] for layer in found["layers"]] == [True, True]
    assert all(layer["error_alone"] > 0 for layer in found["layers"])


def test_fp32_is_explained_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain.main(["net.onnx", *TARGET, "--json", "out.json"]) == 0
    assert "precision" not in capsys.readouterr().out
    assert "precision" not in json.loads(Path("out.json").read_text())


def test_half_precision_is_said_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net((1, 8, 4, 4))
    net.weight(128, 1000)
    onnx.save(net.model(net("MatMul", net("Flatten", "data"), "w0")), "dense.onnx")
    argv = ["dense.onnx", *TARGET, "--precision", "fp16", "--json", "out.json"]
    assert explain.main(argv) == 0
    printed = capsys.readouterr().out
    assert "dense: precision fp16: weights are stored as float16 in layers that wait" in printed
    assert "float32 x float16" in Path("out.json").read_text()


def test_half_precision_with_a_bound_says_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net((1, 8, 4, 4))
    net.weight(128, 1000)
    onnx.save(net.model(net("MatMul", net("Flatten", "data"), "w0")), "dense.onnx")
    np.savez("dense.npz", data=np.random.default_rng(0).normal(size=(4, 8, 4, 4)))
    argv = ["dense.onnx", *TARGET, "--precision", "bf16", "--max-error", "0.01"]
    assert explain.main([*argv, "--accuracy-data", "dense.npz", "--json", "out.json"]) == 0
    printed = capsys.readouterr().out
    assert "precision bf16, bound 0.01: 1 of 1 layer in bf16, 100.0% of" in printed
    assert "error alone in bf16" in printed and "the bound costs 0.0%" in printed
    found = json.loads(Path("out.json").read_text())["precision"]
    assert 1e-4 < found["measured_error"] < 0.01 and found["shares"]["bf16"] == 1.0
    assert found["layers"][0]["precision"] == "bf16"
    assert found["layers"][0]["error_alone_half"]["bf16"] == pytest.approx(found["predicted_error"])


def test_explain_names_the_best_bound(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["net.onnx", *TARGET, "--precision", "auto", *DATA, "--max-error", "2e-5"]
    assert explain.main([*argv, "--json", "out.json"]) == 0
    printed = capsys.readouterr().out
    assert (
        "net: precision auto: no layer in lower precision keeps the error within 2e-05" in printed
    )
    reachable = float(printed.split("the best reachable is ")[1].split(",")[0])
    assert 2e-5 < reachable < 0.02
    assert json.loads(Path("out.json").read_text())["precision"]["unmet"]


@pytest.mark.skipif(
    not {"avx512vnni", "avxvnni"} & HOST.features, reason="int8 need not be faster without VNNI"
)
def test_tune_measures_the_layers_in_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    prove_at_once(monkeypatch)
    argv = ["net.onnx", "--target", "llvm", "-num-cores=1", "--precision", "auto", *DATA]
    assert tune.main([*argv, "--max-error", "0.05", "--trials", "3", "--log", "x.log"]) == 0
    tuned = {str(record.workload) for record in TuningLog(Path("x.log")).load().records}
    assert any("uint8 x int8" in workload for workload in tuned)


@pytest.mark.parametrize("command", [compile_command.main, explain.main, tune.main])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--precision", "fp8"], "precision is one of"),
        (
            ["--precision", "bf16", "--max-error", "0.1"],
            "with max_error needs accuracy_data",
        ),
        (["--precision", "fp16", "--target", "llvm -mcpu=core2"], "core2 cannot widen"),
        (["--precision", "auto"], "precision 'auto' needs accuracy_data"),
        (["--max-error", "0.1"], "are for a precision below 'fp32'"),
        (["--precision", "int8", "--accuracy-data", "gone"], "there is no calibration data gone"),
        (["--precision", "int8", *DATA, "--max-error", "2e-5"], "the best reachable is"),
        (["--precision", "auto", *DATA, "--max-error", "1e-9"], "the best reachable is"),
    ],
)
def test_one_line_says_what_is_wrong(
    command: Callable[[list[str]], int],
    options: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(["net.onnx", *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.startswith("error: ") and error.count("\n") == 1
    assert not Path("net.so").exists()
