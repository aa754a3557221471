"""Where the user's database is, and that every build of this user finds it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from small_logs import A, log_of

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database import places
from tvm_neocpu.tuning.database.folders import log_folders
from tvm_neocpu.tuning.database.folders.data_folder import data_folder
from tvm_neocpu.tuning.database.history import apply_history_best, current_history
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning
from tvm_neocpu.tuning.database.places import find_user_log, user_log

CPU = Cpu("testcpu", AVX2, 2, features="83f1c0de")
CONFIGS = [ConvConfig(8, 16, n) for n in (7, 14, 28, 4)]


def test_a_test_never_sees_the_users_own(user_data) -> None:
    assert data_folder() == user_data
    assert not user_data.exists()


def test_the_folder_is_the_systems_place_for_such_data(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(places.DATA_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert find_user_log("znver3") == tmp_path / "tvm_neocpu" / "logs" / "znver3.log"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert data_folder() != Path("relative") / "tvm_neocpu"


def test_tilde_is_the_home_directory(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(places.DATA_VARIABLE, "~/tuning")
    assert data_folder() == tmp_path / "tuning"


@pytest.mark.parametrize("text", ["off", " OFF "])
def test_switched_off_there_is_none(monkeypatch, text) -> None:
    monkeypatch.setenv(places.DATA_VARIABLE, text)
    assert data_folder() is find_user_log("znver3") is None
    with pytest.raises(LogError, match=r"TVM_NEOCPU_DATA.* is off: name a log with --log"):
        user_log("znver3")
    assert current_history(CPU).logs == ()


def test_its_log_is_made_with_its_folders(user_data) -> None:
    path = user_log("znver3")
    assert path == user_data / "logs" / "znver3.log"
    assert path.read_bytes() == b""


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc/passwd"])
def test_a_cpus_name_is_no_path(name, user_data) -> None:
    assert find_user_log(name) is None
    with pytest.raises(LogError, match="has no log for a CPU"):
        user_log(name)


def test_a_disk_that_cannot_be_written_is_one_line(user_data) -> None:
    user_data.parent.mkdir(parents=True, exist_ok=True)
    user_data.write_text("in the way")
    with pytest.raises(LogError, match=r"cannot write the tuning log .*znver3\.log: Not a dir"):
        user_log("znver3")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write_is_one_line(user_data) -> None:
    user_data.mkdir(parents=True)
    user_data.chmod(0o500)
    with pytest.raises(LogError, match="Permission denied"):
        user_log("znver3")


def test_a_build_reads_shipped_logs_then_the_users_then_named_then_applied_ones(
    tmp_path, monkeypatch, make_record, conv
) -> None:
    monkeypatch.setattr(log_folders, "PACKAGE", tmp_path / "src" / "tvm_neocpu")
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "named"))
    paths = [
        tmp_path / "src" / "tuning_logs" / "testcpu" / "x.log",
        user_log("testcpu"),
        tmp_path / "named" / "testcpu" / "x.log",
        tmp_path / "applied.log",
    ]
    for at, path in enumerate(paths):
        for config in CONFIGS[at:]:
            TuningLog(path, CPU.features).append(make_record(config, 1e-3 * (at + 1)))
    with apply_history_best(paths[-1]):
        known = current_history(CPU)
        assert [log.paths for log in known.logs] == [(path,) for path in paths]
        seconds = {c: r.seconds for c, r in known.best_records.measured(conv).items()}
    assert seconds == {config: 1e-3 * (at + 1) for at, config in enumerate(CONFIGS)}


def test_a_log_of_other_features_is_not_measured_here(make_record, conv) -> None:
    path = user_log("testcpu")
    TuningLog(path, "00000000").append(make_record(CONFIGS[0]))
    assert current_history(CPU).tried([conv]) == {}
    assert current_history(CPU).hints(conv) == (CONFIGS[0],)


def test_an_unreadable_database_is_no_reason_to_fail(user_data: Path) -> None:
    assert current_history(CPU).logs == ()
    user_log("testcpu").unlink()
    assert current_history(CPU).logs == ()


def test_shipped_logs_are_found_by_the_cpus_name(tmp_path, monkeypatch, make_record, conv) -> None:
    monkeypatch.setattr(log_folders, "PACKAGE", tmp_path / "src" / "tvm_neocpu")
    wheel = tmp_path / "src" / "tvm_neocpu" / "_tuning_logs" / "testcpu" / "net.log"
    checkout = tmp_path / "src" / "tuning_logs" / "testcpu" / "net.log"
    extra = tmp_path / "extra" / "testcpu" / "net.log"
    other = tmp_path / "extra" / "other" / "net.log"
    for number, path in enumerate((wheel, checkout, extra, other), 1):
        log_of(path, make_record(A, 1e-3 * number))
    variable = os.pathsep.join(["", str(tmp_path / "extra")])
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, variable)
    assert places.shipped_logs("testcpu") == (wheel, checkout)
    assert places.named_logs("testcpu") == (extra,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_history(CPU).best_records.best(conv).seconds == 3e-3


def test_a_folder_of_logs_that_is_not_there_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "missing"))
    with pytest.warns(TuningLogWarning, match="TVM_NEOCPU_LOGS names .*missing"):
        places.named_logs("testcpu")


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc"])
def test_a_cpus_name_is_no_path_among_logs(name, tmp_path, monkeypatch) -> None:
    (tmp_path / "x.log").write_text("")
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "folder"))
    assert places.named_logs(name) == places.shipped_logs(name) == ()
    assert places.find_user_log(name) is None
