"""Writing the log file: whole lines, whoever dies and however full the disk is."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.network.verdict import Settled
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.lines.record_lines import encode_record
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning, load_log


def test_what_is_appended_is_loaded(tmp_path, make_record, space) -> None:
    log = TuningLog(tmp_path / "new" / "folder" / "x.log")
    records = [make_record(config, 1e-3 * n) for n, config in enumerate(space, 1)]
    for record in records:
        log.append(record)
    assert log.load().records == tuple(records)


def test_an_unwritable_path_raises_before_tuning(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "x.log", tmp_path):
        with pytest.raises(LogError, match="cannot write"):
            TuningLog(path).check_writable()
    log = TuningLog(tmp_path / "a" / "x.log")
    log.check_writable()
    assert log.path.read_bytes() == b""


@pytest.mark.parametrize(
    "content", [b"\x08\x07\0onnx", b'{\n  "a": 1\n}\n', b"# A page\n\nText.\n"]
)
def test_another_file_is_refused_and_stays_as_it_is(tmp_path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(LogError, match="is no tuning log: name another file"):
        TuningLog(path).check_writable()
    assert path.read_bytes() == content


@pytest.mark.parametrize("older", [0, 3])
def test_a_log_of_a_newer_format_is_refused(tmp_path, make_record, older: int) -> None:
    """Lines of ours were appended, and nothing said that the others count for nothing."""
    record = make_record(ConvConfig(16, 16, 8, True))
    log = TuningLog(tmp_path / "x.log")
    for _ in range(older):
        log.append(record)
    line = encode_record(record).replace('"version": 0.2', '"version": 0.3')
    log.append_lines([line])
    with pytest.raises(LogError, match=r"format version 0\.3 is newer than 0\.2"):
        log.check_writable()


@pytest.mark.parametrize(
    "content", [b"", b"# a comment\n", b"{", b"# a\n{", b'{"input": ["ll', b'\xff\n{"i": 1}\n']
)
def test_a_log_that_is_empty_or_damaged_is_written(tmp_path, content: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(content)
    TuningLog(path).check_writable()


def test_a_torn_last_line_is_ended_before_the_next_record(tmp_path, make_record) -> None:
    path = tmp_path / "x.log"
    first, second = make_record(ConvConfig(8, 8, 7)), make_record(ConvConfig(16, 8, 7))
    path.write_text(encode_record(first) + "\n" + encode_record(first)[:50])
    TuningLog(path).append(second)
    with pytest.warns(TuningLogWarning, match=r"x\.log:2: not JSON"):
        contents = load_log(path)
    assert contents.records == (first, second)


def test_a_last_line_without_newline_still_reads(tmp_path, make_record) -> None:
    path = tmp_path / "x.log"
    record = make_record(ConvConfig(8, 8, 7))
    path.write_text(encode_record(record))
    TuningLog(path).append(record)
    assert load_log(path).records == (record, record)


def _write(path: Path, record, count: int) -> None:
    log = TuningLog(path)
    for _ in range(count):
        log.append(record)


def test_two_processes_write_whole_lines_even_after_a_torn_one(tmp_path, make_record) -> None:
    path = tmp_path / "x.log"
    path.write_text('{"input": ["llvm", "conv2')
    # Long lines: a buffered writer would tear them.
    records = [make_record(ConvConfig(n, 8, 7), costs=(1e-3 * n,) * 800) for n in (8, 16)]
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, r, 100)) for r in records]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with pytest.warns(TuningLogWarning):
        contents = load_log(path)
    assert len(contents.skipped) == 1
    assert sorted(contents.records, key=lambda r: r.config) == sorted(
        records * 100, key=lambda r: r.config
    )


WRITE_HALVES = """
import os, sys
from tvm_neocpu.tuning.database.log import TuningLog
log, line = TuningLog(sys.argv[1]), sys.argv[2]
write = os.write
def half(handle, data):
    write(handle, data[: len(data) // 2])
    print("half", flush=True)
    sys.stdin.read()  # until it is killed
log.append_lines([line])
os.write = half
log.append_lines([line])
"""


def test_a_writer_killed_in_the_middle_of_a_line_costs_that_line(tmp_path, make_record) -> None:
    path = tmp_path / "x.log"
    line = encode_record(make_record(ConvConfig(8, 8, 7)))
    command = [sys.executable, "-c", WRITE_HALVES, str(path), line]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdout.readline() == "half\n"
        assert not path.read_bytes().endswith(b"\n")
        writer.kill()
        writer.wait()
    second = make_record(ConvConfig(16, 8, 7))
    TuningLog(path).append(second)  # the lock died with its process
    with pytest.warns(TuningLogWarning) as caught:
        contents = load_log(path)
    assert [record.config for record in contents.records] == [ConvConfig(8, 8, 7), second.config]
    (warning,) = caught
    assert str(warning.message) == f"skipped {path}:2: not JSON, perhaps torn"


def _write_for_ever(path: Path, record, settled, told: int) -> None:
    log = TuningLog(path)
    for number in itertools.count():
        log.append(replace(record, timestamp=float(number)))
        log.append_settled(replace(settled, timestamp=float(number)))
        os.write(told, number.to_bytes(4, "little"))  # from now on it must be there


def test_killed_at_any_moment_nothing_that_was_written_is_lost(tmp_path, make_record, conv) -> None:
    path = tmp_path / "x.log"
    record, settled = make_record(ConvConfig(8, 8, 7)), Settled(conv, "testcpu", 2, 0.01)
    rng, promised = random.Random(7), 0
    for _ in range(20):
        reader, writer = os.pipe()
        context = multiprocessing.get_context("fork")
        child = context.Process(target=_write_for_ever, args=(path, record, settled, writer))
        child.start()
        os.close(writer)
        os.read(reader, 4)
        time.sleep(rng.uniform(0, 0.01))
        child.kill()
        child.join()
        promised += 1 + len(os.read(reader, 1 << 16)) // 4
        os.close(reader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        found = load_log(path)
    assert len(found.skipped) <= 20
    assert min(len(found.records), len(found.settled)) >= promised > 20
    TuningLog(path).append(record)
    assert History("testcpu", 2, (IndexedLog(path),)).noise(conv) is not None


def test_a_full_disk_takes_back_what_it_cut_off(tmp_path, make_record, monkeypatch) -> None:
    log = TuningLog(tmp_path / "x.log")
    record = make_record(ConvConfig(8, 8, 7))
    log.append(record)
    write, calls = os.write, []

    def cut_off(handle: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data[:100])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", cut_off)
        with pytest.raises(LogError, match=r"cannot write .*x\.log: No space left on device"):
            log.append(record)
    assert len(calls) == 2
    log.append(record)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log.load().records == (record, record)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_that_is_full_is_one_line(tmp_path, make_record) -> None:
    (tmp_path / "x.log").symlink_to("/dev/full")
    with pytest.raises(LogError, match=r"cannot write .*x\.log: No space left on device"):
        TuningLog(tmp_path / "x.log").append(make_record(ConvConfig(8, 8, 7)))


def test_a_read_only_disk_is_one_line_and_reads(tmp_path, make_record, monkeypatch) -> None:
    log = TuningLog(tmp_path / "x.log")
    record = make_record(ConvConfig(8, 8, 7))
    log.append(record)

    def refuse(path: object, flags: int, *mode: object, **where: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        for write in (log.check_writable, lambda: log.append(record)):
            with pytest.raises(LogError, match=r"cannot write .*x\.log: Read-only file system"):
                write()
        assert log.load().records == (record,)


def test_a_writer_waits_while_the_log_is_rewritten(tmp_path, make_record) -> None:
    log = TuningLog(tmp_path / "x.log")
    records = [make_record(ConvConfig(n, 8, 7)) for n in (8, 16)]
    log.append(records[0])
    writer = threading.Thread(target=TuningLog(log.path).append, args=(records[1],))

    def kept(old):
        writer.start()
        time.sleep(0.05)
        yield from old

    log.rewrite(kept)
    writer.join()
    assert log.load().records == tuple(records)


def test_a_rewrite_that_fails_changes_nothing(tmp_path, make_record) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append(make_record(ConvConfig(8, 8, 7)))
    before = log.path.read_bytes(), sorted(os.listdir(tmp_path))

    def kept(old):
        yield b"half\n"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(LogError, match="No space left on device"):
        log.rewrite(kept)
    assert (log.path.read_bytes(), sorted(os.listdir(tmp_path))) == before
