"""The tune command: what it passes on, and what it refuses before it measures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tvm.target import Target

from tvm_neocpu.commands import cli, tune
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.fallback import FallbackWarning
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.progress import TuningResult
from tvm_neocpu.tuning.plan_rounds import Search
from tvm_neocpu.tuning.tune_graph import TuneSummary


def test_an_unwritable_log_is_said_before_tuning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("in the way")
    tuned: list[Any] = []
    monkeypatch.setattr(tune, "tune_graph", lambda *all, **_: tuned.append(all))
    assert tune.main(["lenet", "--log", "file/x.log"]) == cli.USER_ERROR
    assert "cannot write the log file/x.log" in capfd.readouterr().err
    assert tuned == []


def test_tune_passes_its_options_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user_data: Path
) -> None:
    calls: list[dict[str, Any]] = []

    def tune_graph(
        graph: ConvGraph, target: Target, cpu: Cpu, search: Search, log: TuningLog, **options: Any
    ) -> TuneSummary:
        plan = search(History(cpu.name, cpu.cores))
        calls.append({"graph": graph, "plan": plan, "cpu": cpu, "log": log.path, **options})
        return TuneSummary(TuningResult((), 1.0), None, None)

    monkeypatch.setattr(tune, "tune_graph", tune_graph)
    argv = "lenet --target llvm -mcpu=native --trials 7 --time-budget 2.5 --threads 1 --no-resume"
    assert tune.main([*argv.split(), "--tuner", "random", "--seed", "3"]) == 0
    (call,) = calls
    cpu, log = call["cpu"], call["log"]
    assert call["plan"].graph == call["graph"].hash
    assert call["limits"] == Limits(trials=7, seconds=2.5)
    assert call["resume"] is False
    assert os.environ["TVM_NUM_THREADS"] == "1"
    assert cpu.cores == 1
    assert log == user_data / "logs" / f"{cpu.name}.log"
    assert log.exists()
    assert "lenet: done: 0 measured" in capsys.readouterr().out


def test_without_a_database_a_checkout_finds_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = TuneSummary(TuningResult((), 1.0), None, None)
    monkeypatch.setattr(tune, "tune_graph", lambda *_, **__: summary)
    monkeypatch.setenv("TVM_NEOCPU_DATA", "off")
    assert tune.main(["lenet"]) == 0
    assert list(Path("tuning_logs").glob("*/lenet.log"))


def test_an_interrupted_search_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = TuneSummary(TuningResult((), 1.0, interrupted=True), None, None)
    monkeypatch.setattr(tune, "tune_graph", lambda *_, **__: summary)
    assert tune.main(["lenet", "lenet", "--log", "x.log"]) == cli.INTERRUPTED
    assert capsys.readouterr().out.count("run again to go on") == 1


def test_code_for_another_machine_is_not_measured_here(capfd: pytest.CaptureFixture[str]) -> None:
    machine = "aarch64" if "x86" in os.uname().machine else "x86_64"
    assert tune.main(["lenet", "--target", f"llvm -mtriple={machine}-linux-gnu"]) == cli.USER_ERROR
    assert "cannot measure" in capfd.readouterr().err


def test_tune_says_what_no_template_takes(
    volume_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = TuneSummary(TuningResult((), 1.0), None, None)
    monkeypatch.setattr(tune, "tune_graph", lambda *_, **__: summary)
    words = r"1 operation of this network, 100.0% .*: conv3d_transpose"
    with pytest.warns(FallbackWarning, match=words):
        assert tune.main([volume_file, "--log", "x.log"]) == 0
