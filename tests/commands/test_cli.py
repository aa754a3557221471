"""The command lines: a user's mistake is one line and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from tvm.target import Target

from tvm_neocpu.commands import bench, cli, tune
from tvm_neocpu.contrib.peers import table
from tvm_neocpu.contrib.peers.compare import compare, largest_error
from tvm_neocpu.contrib.peers.isolated import EngineError, IsolatedRunner
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import LogError, ShapeError
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.progress import TuningResult
from tvm_neocpu.tuning.plan_rounds import Search
from tvm_neocpu.tuning.tune_graph import TuneSummary

Main = Callable[[list[str]], int]


def outcome(main: Main, arguments: list[str]) -> int:
    """The exit code, also if argparse exits."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TVM_NUM_THREADS", "TVM_BIND_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))


@pytest.mark.parametrize(
    ("argv", "rest", "flags"),
    [
        ("m --target llvm -mcpu=znver4 --log f", "m --target llvm --log f", "-mcpu=znver4"),
        ("m -mcpu znver4 -mattr=+fma,-avx", "m", "-mcpu znver4 -mattr=+fma,-avx"),
        ("-fast-math m", "m", "-fast-math"),
        ("m --trials -1 -h", "m --trials -1 -h", ""),
        ("--target -x m", "--target -x m", ""),
    ],
)
def test_target_flags_are_collected(argv: str, rest: str, flags: str) -> None:
    assert cli.split_target_flags(argv.split()) == (rest.split(), flags.split())


def test_shapes() -> None:
    assert cli.parse_shapes(["data:1,3,224,224", "a:0:2"]) == {
        "data": (1, 3, 224, 224),
        "a:0": (2,),
    }
    for text in ("data", "data:", ":1,2", "data:1,x"):
        with pytest.raises(ShapeError, match="--shape is NAME"):
            cli.parse_shapes([text])


BAD = [
    ([], "required: MODEL"),
    (["nosuch"], "neither a file nor a network of the zoo"),
    (["no/such.onnx"], "there is no model file no/such.onnx"),
    (["lenet", "--bogus"], "unrecognized arguments: --bogus"),
    (["lenet", "--threads", "0"], "invalid positive number"),
    (["lenet", "--shape", "x"], "--shape is NAME"),
    (["lenet", "--shape", "image:1,1,28,28"], "no input 'image'"),
    (["lenet", "--target", "cuda"], "not a CPU"),
    (["lenet", "--target", "llvm", "-mcp=znver4"], "did you mean -mcpu"),
    (["lenet", "--target", "llvm", "-mcpu=nosuch"], "does not know -mcpu=nosuch"),
    (["lenet", "--target", "llvm -mattr=fma"], "starts with + or -"),
]


@pytest.mark.parametrize("main", [tune.main, bench.main], ids=["tune", "bench"])
@pytest.mark.parametrize(("argv", "words"), BAD)
def test_bad_input_is_one_line(
    main: Main, argv: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert outcome(main, argv) == cli.USER_ERROR
    error = capfd.readouterr().err
    assert words in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", [b"", b"not onnx at all" * 9])
def test_a_bad_model_file_is_one_line(kind: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    Path("bad.onnx").write_bytes(kind)
    assert tune.main(["bad.onnx"]) == cli.USER_ERROR
    assert capfd.readouterr().err.startswith("error: ")


def test_errors_of_the_real_command_have_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tvm_neocpu.tune", "nosuch"]
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == cli.USER_ERROR
    assert done.stderr.startswith("error: 'nosuch'")
    assert "Traceback" not in done.stderr


def test_an_interrupt_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    assert cli.guarded(interrupted, []) == cli.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_an_unwritable_log_is_said_before_tuning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("in the way")
    tuned: list[Any] = []
    monkeypatch.setattr(tune, "tune_graph", lambda *all, **_: tuned.append(all))
    assert tune.main(["lenet", "--log", "file/x.log"]) == cli.USER_ERROR
    assert "cannot write the log file/x.log" in capfd.readouterr().err
    assert tuned == []
    with pytest.raises(LogError):
        cli.prepare_log(Path("."))


def test_tune_passes_its_options_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
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
    assert log == Path("tuning_logs") / cpu.name / "lenet.log"
    assert log.exists()
    assert "lenet: done: 0 measured" in capsys.readouterr().out


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


@pytest.fixture
def tiny_file(tiny_cnn: onnx.ModelProto, tmp_path: Path) -> str:
    onnx.save(tiny_cnn, tmp_path / "tiny.onnx")
    return "tiny.onnx"


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
    assert bench.main([tiny_file, "--runs", "1"]) == 0
    assert capsys.readouterr().out.count("not installed") == 2


def test_bench_wants_a_log_that_exists(tiny_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert bench.main([tiny_file, "--log", "missing.log"]) == cli.USER_ERROR
    assert "missing.log" in capfd.readouterr().err
    assert bench.main([tiny_file, "--json", "no/such/folder.json"]) == cli.USER_ERROR


def test_runners_take_turns() -> None:
    import numpy as np

    turns: list[str] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def burst(self, count: int) -> list[float]:
            turns.append(self.name)
            return [0.1] * count

        def outputs(self) -> list[np.ndarray]:
            return [np.array([1.0, 2.0])]

    timings = compare({"a": Fake("a"), "b": Fake("b")}, runs=7)
    assert [len(timing.seconds) for timing in timings.values()] == [7, 7]
    assert turns == ["a", "b", "a", "b"]


class Refuses:
    """An engine that refuses every network."""

    def __init__(self) -> None:
        raise ValueError("no such operator\nand more")


def test_an_engine_that_refuses_a_network_says_why() -> None:
    with pytest.raises(EngineError, match="ValueError: no such operator"):
        IsolatedRunner(Refuses)


def test_errors_are_relative_to_the_largest_value() -> None:
    import numpy as np

    one, other = [np.array([0.0, 10.0])], [np.array([1.0, 10.0])]
    assert largest_error(one, other) == pytest.approx(0.1)
    assert largest_error(one, one) == 0
    assert largest_error(one, [np.zeros(3)]) == float("inf")


@pytest.mark.parametrize("command", [["kernels"], ["plan", "lenet"], ["lenet"]], ids=lambda c: c[0])
def test_every_benchmark_tries_its_file_before_it_measures(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(cli, "load_network", loaded.append)
    assert bench.main([*command, "--json", "no/such/folder.json"]) == cli.USER_ERROR
    assert capfd.readouterr().err == (
        "error: cannot write no/such/folder.json: No such file or directory\n"
    )
    assert loaded == []
