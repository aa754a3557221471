"""The index beside a log: used where it fits, made again where not, done without where it must."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.index import index_file
from tvm_neocpu.tuning.database.index.index_file import index_of, index_path
from tvm_neocpu.tuning.database.index.scan import LogIndex, scan
from tvm_neocpu.tuning.database.log import TuningLog

CONFIGS = [ConvConfig(8, 16, 7), ConvConfig(16, 16, 14), ConvConfig(16, 8, 7)]


@pytest.fixture(autouse=True)
def short_logs_too(monkeypatch) -> None:
    monkeypatch.setattr(index_file, "MIN_BYTES", 1)


@pytest.fixture
def log(tmp_path, make_record) -> Path:
    path = tmp_path / "x.log"
    for config in CONFIGS:
        TuningLog(path).append(make_record(config))
    return path


def index(path: Path) -> LogIndex:
    with path.open("rb") as file:
        return index_of(path, file)


def same(one: LogIndex, other: LogIndex) -> bool:
    return (one.offsets.tolist(), one.about.tolist(), one.texts) == (
        *(other.offsets.tolist(), other.about.tolist(), other.texts),
    )


def truth(path: Path) -> LogIndex:
    with path.open("rb") as file:
        return scan(file)


@pytest.fixture
def scans(monkeypatch) -> list[int]:
    """The bytes that each scan begins at."""
    begins: list[int] = []

    def spy(file, known=None):
        begins.append(known.end if known else 0)
        return scan(file, known)

    monkeypatch.setattr(index_file, "scan", spy)
    return begins


def test_an_index_that_fits_saves_the_scan(log, scans) -> None:
    first = index(log)
    assert index_path(log).name == "x.log.idx"
    assert same(index(log), first) and same(first, truth(log))
    assert scans == [0]


def test_a_log_that_has_grown_is_scanned_from_there(log, scans, make_record) -> None:
    size = log.stat().st_size
    index(log)
    TuningLog(log).append(make_record(CONFIGS[0], threads=4))
    assert same(index(log), truth(log))
    assert scans == [0, size]


def test_a_last_line_without_end_is_not_kept(log, scans, make_record) -> None:
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b'{"input": ["llv')
    index(log)
    with log.open("ab") as file:
        file.write(b"\n")
    assert same(index(log), truth(log))
    assert scans == [0, size]


def test_a_log_that_was_replaced_is_scanned_again(log, scans) -> None:
    index(log)
    lines = log.read_bytes().splitlines(keepends=True)
    for content in (lines[0], lines[1] + lines[0] + lines[2] + lines[1], b"x" * 2000, b""):
        log.write_bytes(content)
        assert same(index(log), truth(log))
    assert set(scans) == {0} and len(scans) == 5


def test_a_log_of_the_same_size_and_another_time_is_scanned_again(log, scans) -> None:
    index(log)
    status = log.stat()
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert same(index(log), truth(log))
    assert scans == [0, 0]


def test_a_short_log_has_no_index(log, monkeypatch) -> None:
    monkeypatch.setattr(index_file, "MIN_BYTES", 1 << 20)
    assert same(index(log), truth(log))
    assert not index_path(log).exists()


@pytest.mark.parametrize("reason", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_nobody_can_write_does_without(log, monkeypatch, reason) -> None:
    def refuse(*_, **__):
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert same(index(log), truth(log))
    assert not index_path(log).exists()


def test_a_disk_that_fills_up_leaves_nothing_behind(log, monkeypatch) -> None:
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    before = sorted(os.listdir(log.parent))
    assert same(index(log), truth(log))
    assert sorted(os.listdir(log.parent)) == before


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b'{"format": 1}', b"[" * 100_000, b"\0"])
def test_what_is_no_index_is_replaced(log, content) -> None:
    index_path(log).write_bytes(content)
    assert same(index(log), truth(log))
    assert index_path(log).stat().st_size > 100 and index_path(log).read_bytes() != content


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_index_is_never_believed(log, data) -> None:
    index_path(log).unlink(missing_ok=True)
    index(log)
    content = bytearray(index_path(log).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    index_path(log).write_bytes(content[: data.draw(st.integers(at, len(content)))])
    assert same(index(log), truth(log))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["format", "end", "modified", "ends", "lines", "texts"]),
    st.none() | st.integers(-3, 2**65) | st.text(max_size=3) | st.lists(st.none(), max_size=1),
)
def test_nor_is_one_that_lies(log, key, value) -> None:
    index(log)
    _, header, rest = index_path(log).read_bytes().split(b"\n", 2)
    lie = json.dumps({**json.loads(header), key: value}).encode() + b"\n" + rest
    index_path(log).write_bytes(f"{zlib.crc32(lie):08x}\n".encode() + lie)
    assert same(index(log), truth(log))
