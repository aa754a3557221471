"""The benchmark of tuned networks: its arithmetic, going on, its exit code; one real network."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tvm_neocpu.core.errors import NeoCpuError

FOLDER = Path(__file__).parents[2] / "benchmarks" / "networks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    import tuned_networks

    return tuned_networks


# Starts a process, writes down both process numbers.
HANGS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
"""


def runs(pid: int) -> bool:
    """Whether the process is there, and is not one that only waits to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def pairs(*ratios: float) -> list[dict[str, float]]:
    return [{"ratio": ratio, "untuned_ms": 10 * ratio, "tuned_ms": 10.0} for ratio in ratios]


def test_a_network_is_judged_by_the_interval_of_its_pairs(bench: ModuleType) -> None:
    row = bench.row_of("net", {"verdict": "1.02x faster"}, pairs(1.01, 1.2, 1.02, 1.04, 1.04, 1.05))
    assert (row["ratio"], row["low"], row["high"]) == (1.04, 1.01, 1.2)
    said = "net: 1.040 (1.010-1.200), 6 pairs, faster; tune said: 1.02x faster"
    assert bench.line(row) == said
    few = bench.row_of("net", {}, pairs(1.01, 1.02, 1.03))
    assert few["judged"] == "unclear" and few["high"] is None
    assert "net: 1.020, 3 pairs, unclear" in bench.line(few)


def test_the_interval_holds_the_median_of_coins(bench: ModuleType) -> None:
    # Binomial tables: 5 of 5 alike has 1/16, 6 of 6 has 1/32, at most 1 of 9 otherwise has 0.039.
    assert bench.interval_of([1, 2, 3, 4, 5]) == (0.0, bench.math.inf)
    assert bench.interval_of([6, 1, 2, 3, 4, 5]) == (1, 6)
    assert bench.interval_of(range(1, 9)) == (1, 8)
    assert bench.interval_of(range(1, 10)) == (2, 8)
    assert bench.interval_of(range(1, 13)) == (3, 10)


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ((0.98, 0.98, 0.99, 0.98, 0.97, 0.985), "slower"),
        ((0.98, 0.98, 1.01, 0.98, 0.97, 0.985), "unclear"),
        ((0.996, 1.01, 1.0, 1.02, 1.0, 1.0), "not slower"),
    ],
)
def test_a_noisy_median_below_the_limit_is_not_yet_slower(
    bench: ModuleType, ratios: tuple[float, ...], word: str
) -> None:
    row = bench.row_of("net", {}, pairs(*ratios))
    assert row["judged"] == word
    assert bench.good(row) == (word != "slower")


def test_unclear_networks_get_more_pairs(bench: ModuleType) -> None:
    asked: list[int] = []

    def one_pair(number: int) -> dict[str, float]:
        asked.append(number)
        return pairs(0.9 if number == 0 else 1.02)[0]

    # One bad pair of nine is outside of the interval.
    assert len(bench.paired_until_clear(one_pair, 6, 12)) == 9
    assert asked == list(range(9))
    assert len(bench.paired_until_clear(lambda n: pairs(0.9 + 0.2 * (n % 2))[0], 6, 8)) == 8
    assert len(bench.paired_until_clear(lambda _: pairs(1.0)[0], 6, 12)) == 6


@pytest.mark.parametrize(("ratio", "code"), [(1.0, 0), (0.994, 1)])
def test_what_is_done_is_not_done_again(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: float, code: int
) -> None:
    asked: list[str] = []

    def measure(name: str, _: object) -> dict[str, object]:
        asked.append(name)
        return bench.row_of(name, {}, pairs(*[ratio] * 6))

    monkeypatch.setattr(bench, "measure", measure)
    output = tmp_path / "found.json"
    command = ["--output", str(output), "--time-budget", "7"]
    assert bench.main(["lenet", *command]) == code
    assert bench.main(["lenet", "alexnet", *command]) == code
    assert asked == ["lenet", "alexnet"]
    report = json.loads(output.read_text())
    assert [row["network"] for row in report["networks"]] == asked
    assert [row["time_budget"] for row in report["networks"]] == [7, 7]
    assert report["threads"] == 1
    assert {"machine", "commit", "versions"} <= report.keys()


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    output = tmp_path / "found.json"
    command = ["lenet", "alexnet", "resnet18", "--output", str(output)]

    def measure(name: str, _: object) -> dict[str, object]:
        if name == "alexnet":
            raise KeyboardInterrupt
        return bench.row_of(name, {}, pairs(1.0))

    monkeypatch.setattr(bench, "measure", measure)
    assert bench.main(command) == bench.INTERRUPTED
    assert capsys.readouterr().out.endswith("interrupted, 2 networks are left: run it again\n")
    assert [row["network"] for row in json.loads(output.read_text())["networks"]] == ["lenet"]


@pytest.mark.parametrize("kind", [NeoCpuError, OSError, ValueError])
def test_a_network_that_fails_is_written_down_and_tried_again(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    output = tmp_path / "found.json"
    command = ["lenet", "alexnet", "--output", str(output)]

    def fail(name: str, _: object) -> dict[str, object]:
        if name == "lenet":
            raise kind("tune ended with code 2")
        return bench.row_of(name, {}, pairs(1.0))

    monkeypatch.setattr(bench, "measure", fail)
    assert bench.main(command) == 1
    failed, right = json.loads(output.read_text())["networks"]
    assert failed["failed"] == "tune ended with code 2"
    assert right["ratio"] == 1.0
    asked: list[str] = []
    monkeypatch.setattr(
        bench, "measure", lambda name, _: asked.append(name) or bench.row_of(name, {}, pairs(1.0))
    )
    assert bench.main(command) == 0
    assert asked == ["lenet"]


def test_the_run_ends_in_time(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(bench.time, "monotonic", lambda: clock[0])

    def measure(name: str, _: object) -> dict[str, object]:
        clock[0] += 100.0
        return bench.row_of(name, {}, pairs(1.0))

    monkeypatch.setattr(bench, "measure", measure)
    output = tmp_path / "found.json"
    short = ["--output", str(output), "--time-budget", "600", "--minutes", "5"]
    assert bench.main(["lenet", "alexnet", "resnet18", "vgg11", *short]) == 0
    done = [row["network"] for row in json.loads(output.read_text())["networks"]]
    assert done == ["lenet", "alexnet", "resnet18"]


def test_the_first_network_is_begun_though_no_time_is_given(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "measure", lambda name, _: bench.row_of(name, {}, pairs(1.0)))
    output = tmp_path / "found.json"
    assert bench.main(["lenet", "alexnet", "--output", str(output), "--minutes", "0"]) == 0
    assert [row["network"] for row in json.loads(output.read_text())["networks"]] == ["lenet"]


def test_sessions_may_run_first_and_the_comparison_later(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    told: list[str] = []

    def tune(name: str, target: str, threads: int, budget: float, log: Path) -> dict[str, object]:
        assert not log.exists()
        log.write_text("a session")
        told.append(f"tune {name}")
        return {"verdict": "1.02x faster", "load": 9.0}

    def export(name: str, target: str, log: Path) -> None:
        told.append(f"build {name}")
        for label, path in bench.libraries_of(log).items():
            path.write_text(label)

    def pair(
        network: object, libraries: dict[str, Path], runs: int, reverse: bool
    ) -> dict[str, float]:
        told.append(libraries["tuned"].name)
        return pairs(1.02)[0]

    for each in (tune, export, pair):
        monkeypatch.setattr(bench, each.__name__, each)
    folder, output = tmp_path / "kept", tmp_path / "found.json"
    command = ["lenet", "--folder", str(folder), "--output", str(output)]
    command += ["--pairs", "1", "--most-pairs", "1"]
    folder.mkdir()
    (folder / "lenet.log").write_text("of a session that was killed")
    assert bench.main([*command, "--later"]) == 0
    assert not output.exists()
    assert "lenet: tune said: 1.02x faster" in capsys.readouterr().out
    assert bench.main([*command, "--later"]) == 0
    assert bench.main(command) == 0
    assert told == ["tune lenet", "build lenet", "lenet.tuned.so"]
    (row,) = json.loads(output.read_text())["networks"]
    assert row["ratio"] == 1.02
    assert row["tune"] == {"verdict": "1.02x faster", "load": 9.0}


def test_equal_builds_are_not_run(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(bench, "tune", lambda *_: {"verdict": "already at its best"})

    def export(name: str, target: str, log: Path) -> None:
        for path in bench.libraries_of(log).values():
            path.write_text("code")

    monkeypatch.setattr(bench, "export", export)
    output = tmp_path / "found.json"
    assert bench.main(["lenet", "--output", str(output)]) == 0
    assert "lenet: the same build; tune said: already at its best" in capsys.readouterr().out
    (row,) = json.loads(output.read_text())["networks"]
    assert (row["same"], row["ratio"]) == (True, 1.0)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--threads", "2"], "is of 1 threads: name another file"),
        (["--target", "llvm -mcpu=haswell"], "is of llvm: name another file"),
        (["nonet"], "no network is called 'nonet'"),
        (["--later"], "--later needs a --folder"),
    ],
)
def test_another_comparison_is_refused(
    bench: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    why: str,
) -> None:
    monkeypatch.setattr(bench, "measure", lambda name, _: bench.row_of(name, {}, pairs(1.0)))
    command = ["lenet", "--output", str(tmp_path / "found.json")]
    assert bench.main(command) == 0
    with pytest.raises(SystemExit) as ended:
        bench.main([*more, *command])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_a_session_that_hangs_fails(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.run_in_group
    command = [sys.executable, "-c", HANGS + "time.sleep(600)", str(tmp_path / "pids")]
    monkeypatch.setattr(bench, "LONGEST_START", 0.0)
    monkeypatch.setattr(bench, "run_in_group", lambda _, *rest: run(command, *rest))
    with pytest.raises(NeoCpuError, match="did not end within 3 s"):
        bench.tune("lenet", "llvm", 1, 1.0, tmp_path / "lenet.log")
    pids = [int(text) for text in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2  # the session and a process that it started
    assert wait_until(lambda: not any(map(runs, pids)))


def test_a_command_that_dies_leaves_no_process_behind(bench: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGS + "os._exit(3)", str(tmp_path / "pids")]
    assert bench.run_in_group(command, os.environ, 60.0) == 3
    assert wait_until(lambda: not any(map(runs, map(int, (tmp_path / "pids").read_text().split()))))


@pytest.mark.slow
@pytest.mark.compiler
def test_a_network(bench: ModuleType, tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    few = ["--time-budget", "15", "--pairs", "1", "--runs", "5"]
    bench.main(["lenet", "--output", str(output), *few])
    (row,) = json.loads(output.read_text())["networks"]
    if not row.get("same"):  # a plan was proven
        (pair,) = row["pairs"]
        assert pair["error"] < 1e-3
        assert pair["untuned_ms"] > 0 < pair["tuned_ms"]
    assert row["tune"]["measured"] >= 0
