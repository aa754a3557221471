"""The records command: what it shows, what it changes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_neocpu.commands import records
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record, Stamp
from tvm_neocpu.core.network.verdict import KEPT, Settled, Verdict
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.tuning.database.log import TuningLog, load_log
from tvm_neocpu.tuning.database.places import user_log

TARGET = ["--target", "llvm", "-mcpu=skylake-avx512"]
CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
DENSE = DenseWorkload(1, 64, 64)
ASSETS = Path(__file__).parents[1] / "tuning" / "assets"


@pytest.fixture(scope="module")
def cpu() -> Cpu:
    return parse_target("llvm -mcpu=skylake-avx512").cpu


@pytest.fixture
def log(cpu: Cpu) -> TuningLog:
    """The user's log of a network of one convolution, at two thread counts."""
    log = TuningLog(user_log(cpu.name), cpu.features)
    graph = ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), CONV),), ())
    best = ConvConfig(16, 16, 7)
    log.append(Record(CONV, ConvConfig(8, 16, 7), (2e-3,), cpu.name, 2))
    log.append(Record(CONV, best, (1e-3,), cpu.name, 2))
    log.append(Record(CONV, best, (4e-3,), cpu.name, 1))
    log.append(Record(DENSE, DenseConfig(16), (1e-5,), cpu.name, 2, stamp=Stamp("old", "0.26", 1)))
    log.append_plan(Plan(graph.hash, {"a": best}, seconds=1e-3), graph, cpu.name, 2)
    settled = (Settled(CONV, cpu.name, 2, 0.01),)
    log.append_verdict(
        Verdict(graph.hash, cpu.name, 2, "0123456789ab", 1.06, 1.05, 1.08, 2, settled, network="my")
    )
    return log


def test_list_shows_networks_workloads_and_counts(
    log: TuningLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert records.main(["list", *TARGET, "--json", "list.json"]) == 0
    shown = capsys.readouterr().out
    assert "faster, 1.06x (1.05-1.08)" in shown and str(CONV) in shown
    found = json.loads(Path("list.json").read_text())
    (network,) = found["networks"]
    assert (network["network"], network["threads"], network["plan, ms"]) == ("my", 2, 1.0)
    counts = [(row["workload"], row["threads"], row["records"]) for row in found["workloads"]]
    assert counts == [(str(CONV), 2, 2), (str(CONV), 1, 1), (str(DENSE), 2, 1)]
    assert [row["settled within"] for row in found["workloads"]] == ["1.0%", None, None]


def test_best_shows_measurements_and_no_stale_times(
    log: TuningLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert records.main(["best", str(log.path), *TARGET, "--json", "best.json"]) == 0
    shown = capsys.readouterr().out
    assert "direct" in shown and str(DENSE) not in shown
    assert "1 more workloads have stale or failed records only" in shown
    found = json.loads(Path("best.json").read_text())
    assert [(row["threads"], row["ms"]) for row in found["best"]] == [(1, 4.0), (2, 1.0)]
    assert records.main(["best", *TARGET, "--threads", "1", "--json", "best.json"]) == 0
    assert len(json.loads(Path("best.json").read_text())["best"]) == 1


def test_check_names_the_lines_and_fails(
    log: TuningLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert records.main(["check", *TARGET]) == 0
    assert "4 records, 1 plans, 1 verdicts; 0 lines skipped" in capsys.readouterr().out
    damaged = str(ASSETS / "damaged.log")
    assert records.main(["check", damaged, *TARGET]) == records.FOUND_BAD_LINES
    shown, errors = capsys.readouterr()
    assert f"{damaged}:2: not JSON, perhaps torn" in shown and errors == ""
    assert shown.count("\n") == 13


def test_prune_says_how_many(log: TuningLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert records.main(["prune", *TARGET, "--json", "prune.json"]) == 0
    shown = capsys.readouterr().out
    assert "1 lines dropped (1 stale, 0 duplicate, 0 failed, 0 torn), 6 kept" in shown
    assert json.loads(Path("prune.json").read_text())[str(log.path)]["stale"] == 1
    found = load_log(log.path)
    assert (len(found.records), len(found.plans), len(found.verdicts)) == (3, 1, 1)


def test_a_merge_of_what_is_no_log_ends_with_1(
    log: TuningLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noise.log").write_bytes(bytes(range(128, 256)))
    assert records.main(["merge", "all.log", str(log.path), "noise.log"]) == 1
    assert "noise.log:1: not UTF-8 text" in capsys.readouterr().out


def test_merge_and_import(log: TuningLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert records.main(["merge", "all.log", str(log.path), str(log.path)]) == 0
    assert "all.log: 7 lines added, 7 were there already" in capsys.readouterr().out
    assert Path("all.log").read_bytes() == log.path.read_bytes()
    tophub = str(ASSETS / "autotvm_tophub.log")
    assert records.main(["import", tophub, *TARGET]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{log.path}: ") and " candidates added for skylake-avx512" in shown
    assert records.main(["import", tophub, "--log", "other.log", *TARGET]) == 0
    assert Path("other.log").stat().st_size > 0


def test_names_in_a_log_cannot_command_a_terminal(
    log: TuningLog, cpu: Cpu, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J[red]\ud800"
    log.append_verdict(Verdict(hostile, cpu.name, 2, "x", 1, 1, 1, 1, network=hostile))
    assert records.main(["list", *TARGET]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "?[2J[red]?" in shown


def test_a_session_without_a_plan_to_compare_shows_no_ratio(
    log: TuningLog, cpu: Cpu, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append_verdict(Verdict("g", cpu.name, 2, KEPT, 1.0, 1.0, 1.0, 3, network="alone"))
    assert records.main(["list", *TARGET]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "alone" in line]
    assert "kept, no other plan looked faster" in row


def test_an_empty_log_has_nothing_to_show(cpu: Cpu, capsys: pytest.CaptureFixture[str]) -> None:
    user_log(cpu.name)
    for command in ("list", "best", "check", "prune"):
        assert records.main([command, *TARGET]) == 0
    assert "workloads: none" in capsys.readouterr().out


BAD = [
    ([], "required: COMMAND"),
    (["draw"], "invalid choice: 'draw'"),
    (["merge", "out.log"], "required: LOG"),
    (["merge", "out.log", "missing.log"], "cannot read the tuning log missing.log"),
    (["merge", "file/out.log", "missing.log"], "cannot write the tuning log file/out.log"),
    (["import", "missing.log", *TARGET], "cannot read the tuning log missing.log"),
    (["import", "missing.log", "--top", "0"], "invalid positive number value: '0'"),
    (["best", "--threads", "-1"], "positive number"),
    *(([command, "missing.log"], "no log missing.log") for command in ("list", "check", "prune")),
    (["list", *TARGET], "there is no log"),
    (["list", "--target", "cuda"], "not a CPU"),
    (["check", "folder"], "cannot read the tuning log folder"),
    (["list", "folder"], "cannot read the tuning log folder"),
    (["prune", "folder"], "cannot write the tuning log folder"),
]


@pytest.mark.parametrize(("argv", "words"), BAD)
def test_bad_input_is_one_line(
    argv: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("file").write_text("in the way")
    try:
        code = records.main(argv)
    except SystemExit as stop:
        code = stop.code
    assert code == USER_ERROR
    error = capfd.readouterr().err
    assert error.startswith("error: ") and words in error
    assert error.count("\n") == 1


def test_without_a_database_a_log_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVM_NEOCPU_DATA", "off")
    assert records.main(["list"]) == USER_ERROR
    assert capfd.readouterr().err == "error: the database (TVM_NEOCPU_DATA) is off: name a log\n"


def test_plot_shows_and_draws_what_was_found(
    log: TuningLog, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--html", "plot.html", "--json", "plot.json"]
    assert records.main(["plot", "--log", str(log.path), *TARGET, *options]) == 0
    shown = capsys.readouterr().out
    assert records.main(["plot", str(log.path), *TARGET]) == 0  # as the other subcommands
    assert capsys.readouterr().out == shown
    assert str(CONV) in shown and str(DENSE) not in shown and "my: 1.060x" in shown
    found = json.loads(Path("plot.json").read_text())
    (row,) = found["workloads"]
    assert (row["workload"], row["records"], row["ms"], row["gain"]) == (str(CONV), 2, 1.0, 2.0)
    assert Path("plot.html").read_text().count("<svg") == 2


def test_plot_says_which_records_there_are(
    log: TuningLog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert records.main(["plot", "--log", str(log.path), *TARGET, "--threads", "63"]) == 2
    assert "no current records" in capsys.readouterr().err
