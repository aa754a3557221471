"""The calibrate command: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tvm_neocpu.commands import calibrate
from tvm_neocpu.contrib.kernels import measure_machine
from tvm_neocpu.contrib.kernels.measure_machine import Buffers
from tvm_neocpu.core.errors import CalibrationError
from tvm_neocpu.core.machine.cpu import KIB, MIB, Cpu
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.runtime.process.calibration_place import VARIABLE
from tvm_neocpu.targets import parse_target
from tvm_neocpu.targets.calibration_file import Calibration, load, save


@pytest.fixture(autouse=True)
def calm_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.2, 0.2, 0.2))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[Cpu]:
    """A fake machine: 1.5 GHz, half of its L3 usable; the list holds the CPUs measured."""
    seen: list[Cpu] = []

    def probes(target: object, buffers: Buffers) -> dict[str, object]:
        cpu = target.cpu  # type: ignore[attr-defined]
        seen.append(cpu)
        rates = {"peak": 2 * cpu.multiply_adds_per_cycle("float32") * 1.5, "l2": 30e9, "dram": 6e9}
        for size in buffers.l3:
            rates[f"l3 {size}"] = 15e9 if size <= cpu.l3 // 2 else 6e9
        return {name: lambda rate=rate: rate for name, rate in rates.items()}

    monkeypatch.setattr(measure_machine, "probes", probes)
    buffers = Buffers(KIB, (MIB, 2 * MIB, 64 * 1024 * MIB), MIB)
    monkeypatch.setattr(measure_machine, "buffers_of", lambda cpu: buffers)
    return seen


EXPECTED = {
    "ghz": 1.5,
    "l2_bytes_per_cycle": 20.0,
    "l3_bytes_per_cycle": 10.0,
    "l3": 2 * MIB,
    "dram_bytes_per_cycle": 4.0,
}


def test_it_measures_in_miniature(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = Buffers(64 * KIB, (256 * KIB, 512 * KIB), MIB)
    monkeypatch.setattr(measure_machine, "buffers_of", lambda cpu: tiny)
    monkeypatch.setattr(measure_machine, "RUN_BYTES", MIB)
    assert calibrate.main(["--threads", "1", "--output", "deep/er/c.json"]) == 0
    name = parse_target("llvm").cpu.name
    found = load(Path("deep/er/c.json"))[name]
    rates = ["fma_per_cycle", "load_per_cycle", "fma_latency"]  # unless something shares the core
    written = [name for name in rates if name in found.parameters]
    assert list(found.parameters) == [*EXPECTED, *written]
    assert found.provenance["machine"]["llvm_name"] == host_cpu.cpu_name()
    assert found.provenance["threads"] == 1
    printed, warned = capsys.readouterr()
    assert ("something shares the core" in warned) == (written != rates)
    assert "measured" in printed
    assert f"{VARIABLE}=deep/er/c.json" in printed


def test_what_it_writes_builds_use(
    fakes: list[Cpu], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "c.json")
    before = parse_target("llvm", measured=False).cpu
    assert calibrate.main([]) == 0
    assert json.loads(Path("c.json").read_text())["cpus"][before.name]["parameters"] == EXPECTED
    assert parse_target("llvm").cpu == Calibration(EXPECTED).applied_to(before)
    printed = capsys.readouterr().out
    assert "written to c.json" in printed
    assert "builds use it with" not in printed
    assert f"{before.ghz:.2f}" in printed
    assert "1.50" in printed


def test_an_earlier_calibration_does_not_decide_what_is_measured(
    fakes: list[Cpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "c.json")
    assert calibrate.main([]) == calibrate.main([]) == 0
    assert fakes == [parse_target("llvm", measured=False).cpu] * 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--target", "lvm"], "unknown target 'lvm'"),
        (["--target", "llvm", "-mcpu=nehalem", "-mtriple=x86_64-linux-gnu"], "cannot measure a"),
        (["--target", "llvm", "-mtriple=aarch64-linux-gnu", "-mcpu=cortex-a72"], "cortex-a72 here"),
        (["--threads", "0"], "number of threads (1 to 1024)"),
        (["--rounds", "3"], "--rounds"),
        ([], "off: name a file with --output"),
        (["--output", "notes.txt"], "remove it or name another"),
        (["--output", "."], "cannot read the calibration"),
        (["--output", "notes.txt/c.json"], "Not a directory"),
    ],
)
def test_bad_input_is_one_line_and_measures_nothing(
    argv: list[str], words: str, fakes: list[Cpu], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes.txt").write_text("mine")
    try:
        code = calibrate.main(argv)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    complaint = capsys.readouterr().err
    assert words in complaint
    assert len(complaint.splitlines()) == 1
    assert fakes == []
    assert Path("notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("load", "threads", "lines"), [(0.2, "4", 0), (0.6, "4", 1), (2.0, "2", 0), (2.6, "2", 1)]
)
@pytest.mark.filterwarnings("ignore:4 threads on")
def test_a_busy_machine_is_a_warning(
    load: float,
    threads: str,
    lines: int,
    fakes: list[Cpu],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert calibrate.main(["--threads", threads, "--output", "c.json"]) == 0
    complaint = capsys.readouterr().err.splitlines()
    assert len(complaint) == lines
    assert all(f"load {load}" in line for line in complaint)


def test_a_file_of_other_cpus_keeps_them(fakes: list[Cpu]) -> None:
    save(Path("c.json"), "another", Calibration({"ghz": 1.0}))
    assert calibrate.main(["--output", "c.json"]) == 0
    assert sorted(load(Path("c.json"))) == sorted(["another", parse_target("llvm").cpu.name])


@pytest.mark.parametrize("path", ["file/c.json", "/proc/c.json", "/proc/no/such/c.json"])
def test_a_place_where_nothing_can_be_written_is_one_line_before_anything_is_measured(
    path: str, fakes: list[Cpu], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("no folder")
    assert calibrate.main(["--output", path]) == 2
    error = capfd.readouterr().err
    assert error.startswith("error: cannot ") and error.count("\n") == 1
    assert fakes == []


def test_saving_to_such_a_place_is_a_calibration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CalibrationError, match="cannot"):
        save(tmp_path / "file" / "c.json", "znver3", Calibration({}))


def test_what_is_not_steady_is_named(
    fakes: list[Cpu], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure_machine, "unsteady", lambda rounds: ["dram"] if rounds[8:] else [])
    monkeypatch.setattr(measure_machine, "MEASURE_SECONDS", 0.0)
    assert calibrate.main(["--output", "c.json"]) == 0
    assert "not to be believed: dram;" in capsys.readouterr().err
    written = Path("c.json").read_text()
    assert '"ghz"' in written
    assert '"dram_bytes_per_cycle"' not in written
