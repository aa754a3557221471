"""The calibration file: what it may hold, when builds use it; a bad file never breaks a build."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import tvm

from tvm_neocpu.core.errors import CalibrationError
from tvm_neocpu.core.machine.cpu import AVX512, MIB, Cpu
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.runtime.process.calibration_place import VARIABLE, chosen_path
from tvm_neocpu.targets import calibration_file, describe_target, is_host_cpu, parse_target
from tvm_neocpu.targets.calibration_file import (
    Calibration,
    calibrated,
    load,
    parse,
    save,
)

MEASURED = {"ghz": 1.25, "l3": 3 * MIB, "l2_bytes_per_cycle": 20, "dram_bytes_per_cycle": 5.5}
CPU = Cpu("znver5", AVX512, 4)


def text(parameters: object, name: str = "znver5") -> str:
    return json.dumps({"version": 1, "cpus": {name: {"parameters": parameters}}})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path at which this test's builds look; the file does not exist yet."""
    path = tmp_path / "calibration.json"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_parameters_replace_the_familys_and_the_rest_stays() -> None:
    found = parse(text(MEASURED))["znver5"].applied_to(CPU)
    expected = replace(CPU, ghz=1.25, l3=3 * MIB, l2_bytes_per_cycle=20, dram_bytes_per_cycle=5.5)
    assert found == expected


def test_all_cores_get_no_less_from_memory_than_one() -> None:
    parameters = {"ghz": 2.0, "dram_bytes_per_cycle": 30.0}
    assert Calibration(parameters).applied_to(CPU).dram_total_bytes_per_cycle == 30.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "broken JSON"),
        ('{"version": 1, "cpus": {"znver5"', "broken JSON"),
        ("[" * 100_000, "broken JSON"),
        ("[]", 'no "cpus"'),
        ('{"version": 1, "cpus": []}', 'no "cpus"'),
        ('{"version": 2, "cpus": {}}', "version 2, expected 1"),
        ('{"cpus": {}}', "version None"),
        ('{"version": 1, "cpus": {"a": 3}}', "a: no parameters"),
        ('{"version": 1, "cpus": {"a": {"parameters": [1]}}}', "a: no parameters"),
        (
            '{"version": 1, "cpus": {"a": {"parameters": {"ghz": 1}, "provenance": 3}}}',
            "not an object",
        ),
        (text({}), "no ghz"),
        (text({"l3": MIB}), "no ghz"),
        (text({"ghz": 2, "l4": 3}), "unknown parameter 'l4'"),
        (text({"ghz": 2, "cores": 3}), "unknown parameter 'cores'"),
        (text({"ghz": "2"}), 'ghz is a number, not "2"'),
        (text({"ghz": None}), "ghz is a number, not null"),
        (text({"ghz": True}), "ghz is a number, not true"),
        (text({"ghz": 2, "l3": 2.5}), "l3 is a whole number, not 2.5"),
        (text({"ghz": -2}), "ghz cannot be -2"),
        (text({"ghz": 0}), "ghz cannot be 0"),
        (text({"ghz": float("nan")}), "ghz cannot be NaN"),
        (text({"ghz": float("inf")}), "ghz cannot be Infinity"),
        (text({"ghz": 2, "l3": 10**400}), "l3 cannot be 1000"),
    ],
)
def test_what_we_would_not_write_is_refused_in_one_line(content: str, words: str) -> None:
    with pytest.raises(CalibrationError) as refusal:
        parse(content)
    assert words in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("broken", [b"{", b"\xff\xfe", b"{}", text({"ghz": -1}).encode()])
def test_a_bad_file_is_one_warning_and_changes_nothing(
    broken: bytes, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(broken)
    with caplog.at_level(logging.WARNING):
        assert calibrated(CPU) == calibrated(CPU) == CPU
    assert len(caplog.messages) == 1
    assert str(file) in caplog.messages[0]
    assert "\n" not in caplog.messages[0]


def test_a_folder_in_its_place_is_one_warning(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.mkdir()
    assert calibrated(CPU) == CPU
    assert [str(file) in message for message in caplog.messages] == [True]


@pytest.mark.parametrize(
    ("path", "told"), [("/dev/zero", "it is no file at all"), ("x" * 300, "File name too long")]
)
def test_what_is_no_file_in_its_place_is_one_warning(
    path: str, told: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """/dev/zero has no end."""
    monkeypatch.setenv("TVM_NEOCPU_CALIBRATION", path)
    assert calibrated(CPU) == CPU
    assert [told in message for message in caplog.messages] == [True]


def test_a_named_file_that_is_missing_or_foreign_is_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert calibrated(CPU) == CPU
    assert "there is no file" in caplog.messages[0]
    save(file, "neoverse-n1", Calibration(MEASURED))
    assert calibrated(CPU) == CPU
    assert "calibrates neoverse-n1, not znver5" in caplog.messages[1]
    assert len(caplog.messages) == 2


def test_the_default_file_may_be_missing_or_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "tvm_neocpu" / "calibration.json"
    assert chosen_path() == path
    assert calibrated(CPU) == CPU
    save(path, "neoverse-n1", Calibration(MEASURED))
    assert calibrated(CPU) == CPU
    assert caplog.messages == []
    save(path, "znver5", Calibration(MEASURED))
    assert calibrated(CPU).ghz == 1.25


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({}, "HOME/.cache/tvm_neocpu/calibration.json"),
        ({"XDG_CACHE_HOME": ""}, "HOME/.cache/tvm_neocpu/calibration.json"),
        ({"XDG_CACHE_HOME": "relative"}, "HOME/.cache/tvm_neocpu/calibration.json"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/tvm_neocpu/calibration.json"),
        ({VARIABLE: "  ", "XDG_CACHE_HOME": "/c"}, "/c/tvm_neocpu/calibration.json"),
        ({VARIABLE: "/a/b.json", "XDG_CACHE_HOME": "/c"}, "/a/b.json"),
        ({VARIABLE: "~/b.json"}, "HOME/b.json"),
        # Folders of other things; they may be emptied, or off.
        (
            {"TVM_NEOCPU_CACHE": "/c", "TVM_NEOCPU_DATA": "off"},
            "HOME/.cache/tvm_neocpu/calibration.json",
        ),
        ({VARIABLE: "off"}, None),
        ({VARIABLE: "OFF"}, None),
    ],
)
def test_where_the_file_is(environment: dict[str, str], path: str | None) -> None:
    expected = Path(path.replace("HOME", str(Path.home()))) if path else None
    assert chosen_path(environment) == expected


def test_what_is_saved_is_loaded_and_all_other_figures_stay(file: Path) -> None:
    """Those of other CPUs, and of this one what was not measured again."""
    first = Calibration(MEASURED, {"time": "then"})
    save(file, "znver5", first)
    save(file, "znver5-avx2", Calibration({"ghz": 3.0}))
    assert load(file) == {"znver5": first, "znver5-avx2": Calibration({"ghz": 3.0})}
    save(file, "znver5", Calibration({"ghz": 4.0}))
    assert load(file)["znver5"] == Calibration({**MEASURED, "ghz": 4.0})
    assert list(file.parent.iterdir()) == [file]


def test_a_changed_file_is_read_again(file: Path) -> None:
    save(file, "znver5", Calibration({"ghz": 3.0}))
    assert calibrated(CPU).ghz == 3.0
    save(file, "znver5", Calibration({"ghz": 3.25}))
    assert calibrated(CPU).ghz == 3.25


def test_saving_over_what_is_no_calibration_is_refused(file: Path) -> None:
    file.write_text("notes")
    with pytest.raises(CalibrationError, match="not a calibration file"):
        save(file, "znver5", Calibration(MEASURED))
    assert file.read_text() == "notes"


def test_a_file_for_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CalibrationError, match="Not a directory"):
        save(tmp_path / "file" / "c.json", "znver5", Calibration(MEASURED))


def test_this_machines_target_is_calibrated(file: Path) -> None:
    plain = parse_target("llvm", measured=False)
    save(file, plain.cpu.name, Calibration(MEASURED))
    expected = Calibration(MEASURED).applied_to(plain.cpu)
    assert expected != plain.cpu
    assert parse_target("llvm").cpu == expected
    assert describe_target(plain.target).cpu == expected
    assert parse_target("llvm", measured=False).cpu == plain.cpu


def test_off_ignores_the_default_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain = parse_target("llvm", measured=False).cpu
    save(tmp_path / "tvm_neocpu" / "calibration.json", plain.name, Calibration(MEASURED))
    monkeypatch.setenv(VARIABLE, "off")
    assert parse_target("llvm").cpu == plain
    monkeypatch.delenv(VARIABLE)
    assert parse_target("llvm").cpu != plain


def test_a_target_that_is_not_this_machines_cpu_is_never_calibrated(file: Path) -> None:
    """Neither another architecture, nor the baseline, nor another CPU whose code runs here."""
    arm = host_cpu.arch_of(host_cpu.triple()) == "aarch64"
    triple, other = ("aarch64", "neoverse-n1") if arm else ("x86_64", "nehalem")
    texts = [
        "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4",
        "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1",
        "llvm -mtriple=aarch64-linux-gnu",
        f"llvm -mtriple={triple}-linux-gnu -mcpu={other}",
    ]
    targets = [parse_target(text, measured=False) for text in texts]
    targets.append(describe_target(tvm.target.Target("llvm"), measured=False))
    targets = [t for t in targets if not is_host_cpu(str(t.target.attrs.get("mcpu", "generic")))]
    assert len(targets) >= 3
    for target in targets:
        save(file, target.cpu.name, Calibration(MEASURED))
        assert describe_target(target.target).cpu == target.cpu


def test_this_cpu_of_another_architecture_is_not_this_machine(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "x86_64" if host_cpu.arch_of(host_cpu.triple()) == "aarch64" else "aarch64"
    monkeypatch.setattr(host_cpu, "cpu_name", lambda: "generic")
    monkeypatch.setattr(host_cpu, "vendor", lambda: "")
    target = parse_target(f"llvm -mtriple={other}-linux-gnu -mcpu=generic", measured=False)
    assert is_host_cpu("generic")
    save(file, target.cpu.name, Calibration(MEASURED))
    assert describe_target(target.target).cpu == target.cpu


def test_the_suite_does_not_see_a_users_file() -> None:
    assert chosen_path() is None
    assert set(calibration_file.PARAMETERS) <= set(vars(CPU))
