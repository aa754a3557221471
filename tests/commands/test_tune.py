"""The tune command: what it passes on, what it refuses before it measures, what it says twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx_net import Net

from tvm_neocpu.commands import tune
from tvm_neocpu.commands.parts import tune_workload, tuning_session
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED, USER_ERROR
from tvm_neocpu.core.messages.fallback import FallbackWarning
from tvm_neocpu.core.network.verdict import KEPT, Verdict
from tvm_neocpu.runtime.process.threads import TooManyThreadsWarning
from tvm_neocpu.topi.workload_text import parse_workload
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.in_network.report.outcome import Outcome
from tvm_neocpu.tuning.local_search.progress import TaskResult, TuningResult
from tvm_neocpu.tuning.measuring.child_process import ChildDied
from tvm_neocpu.tuning.seating import Choices
from tvm_neocpu.tuning.tune_network import TuningSession


class Sessions:
    """In place of a session: what it was made with, and the outcome that it claims."""

    def __init__(self, outcome: Outcome | Exception) -> None:
        self._outcome = outcome
        self.made: list[TuningSession] = []

    def __call__(self, *arguments: Any, **options: Any) -> Sessions:
        self.made.append(TuningSession(*arguments, **options))
        return self

    def run(self) -> Outcome:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch):
    def install(outcome: Outcome | Exception | None = None) -> Sessions:
        found = Sessions(outcome or Outcome(None, 7, 1, 2.0))
        monkeypatch.setattr(tuning_session, "TuningSession", found)
        return found

    return install


def test_an_unwritable_log_is_said_before_tuning(
    sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("in the way")
    found = sessions()
    assert tune.main(["lenet", "--log", "file/x.log"]) == USER_ERROR
    assert "cannot write the log file/x.log" in capfd.readouterr().err
    assert found.made == []


def test_a_log_that_is_another_file_is_refused(sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """Two options mistaken for each other must not append lines to a model."""
    model = Path("model.onnx")
    model.write_bytes(b"\x08\x08\x12\0weights")
    found = sessions()
    assert tune.main(["lenet", "--log", "model.onnx"]) == USER_ERROR
    assert capfd.readouterr().err == "error: model.onnx is no tuning log: name another file\n"
    assert model.read_bytes() == b"\x08\x08\x12\0weights"
    assert found.made == []


def test_a_network_without_layers_to_choose_for_is_not_built(
    sessions, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net((1, 4))
    onnx.save(net.model(net("Relu", "data")), "relu.onnx")
    found = sessions()
    assert tune.main(["relu.onnx", "--json", "out.json"]) == 0
    assert "relu: nothing to tune: no layer can be computed" in capsys.readouterr().out
    (report,) = json.loads(Path("out.json").read_text())["networks"]
    assert report == {"network": "relu", "nothing_to_tune": True}
    assert found.made == []


def test_more_threads_than_cores_are_remarked(sessions) -> None:
    sessions()
    with pytest.warns(TooManyThreadsWarning, match="1024 threads on"):
        assert tune.main(["lenet", "--threads", "1024", "--log", "x.log"]) == 0


def test_tune_passes_its_options_on(
    sessions, capsys: pytest.CaptureFixture[str], user_data: Path
) -> None:
    found = sessions()
    argv = "lenet --target llvm -mcpu=native --trials 7 --time-budget 2.5 --threads 1 --no-resume"
    report = Path("report.json")
    more = ["--tuner", "random", "--seed", "3", "--json", str(report)]
    assert tune.main([*argv.split(), *more]) == 0
    (session,) = found.made
    assert session.incumbent.graph == session.graph.hash
    assert session.seconds == 2.5
    assert session.choices == Choices("random", 3, resume=False, trials=7)
    assert os.environ["TVM_NUM_THREADS"] == "1"
    assert session.cpu.cores == 1
    assert session.log.path == user_data / "logs" / f"{session.cpu.name}.log"
    assert session.log.path.exists()
    assert "lenet: no faster plan found, after 7 candidates" in capsys.readouterr().out
    assert json.loads(report.read_text())["networks"][0]["measured"] == 7


def test_an_exhaustive_session_goes_in_the_order_that_was_asked_for(sessions) -> None:
    found = sessions()
    for more in ([], ["--tuner", "random"]):
        assert tune.main(["lenet", "--log", "x.log", "--exhaustive", *more]) == 0
    assert [session.choices.tuner for session in found.made] == ["grid", "random"]
    assert all(session.choices.exhaustive for session in found.made)


def test_without_a_database_a_checkout_finds_the_log(
    sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions()
    monkeypatch.setenv("TVM_NEOCPU_DATA", "off")
    assert tune.main(["lenet"]) == 0
    assert list(Path("tuning_logs").glob("*/lenet.log"))


def test_an_interrupted_session_ends_the_command(
    sessions, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions(Outcome(None, 3, 0, 1.0, interrupted=True))
    assert tune.main(["lenet", "lenet", "--log", "x.log"]) == INTERRUPTED
    assert capsys.readouterr().out.count("run again to go on") == 1


def test_a_network_that_does_not_run_is_one_line(
    sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    sessions(ChildDied("its process ended with code -11"))
    assert tune.main(["lenet", "--log", "x.log"]) == USER_ERROR
    assert "error: lenet does not run as it is: its process ended" in capfd.readouterr().err


def test_a_network_that_does_not_run_loses_no_report_on_others(
    sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, runs = sessions(), iter([True, False])

    def run() -> Outcome:
        if not next(runs):
            raise ChildDied("its process ended with code -11")
        return Outcome(None, 7, 1, 2.0)

    monkeypatch.setattr(found, "run", run)
    argv = ["lenet", "squeezenet1_1", "--log", "x.log", "--json", "x.json"]
    assert tune.main(argv) == USER_ERROR
    reports = json.loads(Path("x.json").read_text())["networks"]
    assert [report["network"] for report in reports] == ["lenet"]


@pytest.mark.parametrize(
    ("complete", "candidates", "budget", "goes_on"),
    [
        (True, 412, None, False),
        (False, 412, "60", False),
        (False, 412, "61", True),
        (False, 412, None, True),
        (False, 0, "60", True),  # the start took all of the time
        (True, 0, "60", False),
    ],
)
def test_a_tuned_network_is_tuned_again_only_for_more_time(
    sessions,
    capsys: pytest.CaptureFixture[str],
    complete: bool,
    candidates: int,
    budget: str,
    goes_on: bool,
) -> None:
    found = sessions()
    assert tune.main(["lenet", "--log", "x.log", "--time-budget", "1"]) == 0
    (first,) = found.made
    log_verdict(first, candidates, complete)
    argv = ["lenet", "--log", "x.log", *(["--time-budget", budget] if budget else [])]
    assert tune.main(argv) == 0
    assert (len(found.made) == 2) == goes_on
    assert ("tuned before, nothing faster" in capsys.readouterr().out) != goes_on


def log_verdict(
    session: TuningSession, candidates: int, complete: bool, plan: str = KEPT, ratio: float = 1.0
) -> None:
    """What a session of 60 s writes at its end, of one that found nothing faster."""
    where = session.graph.hash, session.cpu.name, session.cpu.cores
    bounds = 0.99 * ratio, 1.01 * ratio
    verdict = Verdict(*where, plan, ratio, *bounds, candidates, seconds=60.0, complete=complete)
    TuningLog("x.log", session.cpu.features).append_verdict(verdict)


def test_what_earlier_sessions_gained_is_told(sessions, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one of three found nothing."""
    found = sessions()
    argv = ["lenet", "--log", "x.log", "--time-budget", "1"]
    assert tune.main(argv) == 0
    (first,) = found.made
    log_verdict(first, 9, False, "a plan", 1.2)
    log_verdict(first, 9, False, "another", 1.1)
    assert tune.main(argv) == 0
    assert "tuned before, 1.32x faster (in 60 s" in capsys.readouterr().out
    log_verdict(first, 9, False)
    assert tune.main(argv) == 0
    said = capsys.readouterr().out
    assert "tuned before, 1.32x faster, nothing faster in the last session (in 60 s" in said


def test_what_the_tuner_that_had_the_turn_has_tuned_is_not_tuned_again(
    sessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends while this one waits, which had read the log before."""
    found = sessions()
    assert tune.main(["lenet", "--log", "x.log"]) == 0
    (first,) = found.made

    @contextmanager
    def turn(on_wait: Callable[[str], None]) -> Iterator[None]:
        on_wait("waiting for process 7 (tune)")
        log_verdict(first, 7, complete=True)
        yield

    monkeypatch.setattr(tune, "measuring_turn", turn)
    assert tune.main(["lenet", "--log", "x.log"]) == 0
    assert found.made == [first]
    waiting, told = capsys.readouterr().out.splitlines()[-2:]
    assert waiting == "waiting for process 7 (tune)"
    assert "tuned before, nothing faster" in told


@pytest.mark.parametrize(("load", "lines"), [(0.2, 0), (1000.0, 1)])
def test_a_busy_machine_is_said_once(
    sessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], load, lines
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    sessions()
    assert tune.main(["lenet", "--threads", "1", "--log", "x.log", "--time-budget", "1"]) == 0
    assert capsys.readouterr().err.count(f"at work (load {load})") == lines


def test_code_for_another_machine_is_not_measured_here(capfd: pytest.CaptureFixture[str]) -> None:
    machine = "aarch64" if "x86" in os.uname().machine else "x86_64"
    assert tune.main(["lenet", "--target", f"llvm -mtriple={machine}-linux-gnu"]) == USER_ERROR
    assert "cannot measure" in capfd.readouterr().err


def test_tune_says_what_it_has_no_choice_for(sessions, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net((4, 2, 5))
    weights = net.weight(1, 9, 5), net.weight(1, 9, 3)
    values, _ = net.several(2, "GRU", "data", *weights, hidden_size=3)
    onnx.save(net.model(values), "gru.onnx")
    found = sessions()
    assert tune.main(["gru.onnx", "--trials", "1"]) == 0
    assert "gru: 1 GRU computed in one way, with nothing to tune" in capsys.readouterr().out
    assert len(found.made) == 1


def test_tune_says_what_no_template_takes(volume_file: str, sessions) -> None:
    sessions()
    words = r"1 operation of this network, 100.0% .*: conv3d_transpose"
    with pytest.warns(FallbackWarning, match=words):
        assert tune.main([volume_file, "--log", "x.log"]) == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("", "required: MODEL, or --workload"),
        ("lenet --workload x", "MODEL or --workload, not both"),
        ("--workload x --json f.json", "are for a MODEL"),
        ("--workload x --precision int8", "are for a MODEL"),
        ("lenet --time-budget 0", "--time-budget"),
        ("lenet --time-budget -3", "--time-budget"),
        ("lenet --time-budget nan", "--time-budget"),
        ("lenet --trials 0", "--trials"),
        ("--workload nonsense", "is no workload"),
    ],
)
def test_bad_input_is_one_line(argv: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        code = tune.main(argv.split())
    except SystemExit as end:
        code = end.code
    assert code == USER_ERROR
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert words in line


def test_one_layer_without_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--workload", "16x6x6->16 1x1", "--trials", "2", "--threads", "1", "--log", "x.log"]
    assert tune.main(argv) == 0
    out = capsys.readouterr().out
    assert "no network: each candidate runs alone" in out
    assert len(TuningLog("x.log").load().records) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "'' is no workload", id="nothing"),
        pytest.param(
            "99999999x99999x99999->16 3x3 p1",
            "has a tensor of 1x99999999x99999x99999: 2**31 elements or more",
            id="too much",
        ),
    ],
)
def test_a_workload_that_is_none(text: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert tune.main(["--workload", text, "--time-budget", "5", "--log", "x.log"]) == USER_ERROR
    (line,) = capfd.readouterr().err.splitlines()
    assert words in line


def test_candidates_that_all_fail_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    workload = parse_workload("16x8x8->16 1x1")
    failed = TuningResult((TaskResult("layer", workload, 3, measured=3, failed=3),), 1.0)
    monkeypatch.setattr(tune_workload, "tune_tasks", lambda *_, **__: failed)
    words = ["--workload", str(workload), "--time-budget", "5", "--log", "x.log"]
    assert tune.main(words) == USER_ERROR
    assert f"no candidate of {workload} could be measured" in capfd.readouterr().err
