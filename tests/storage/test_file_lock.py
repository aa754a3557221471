"""A lock on a file: one holder at a time, among threads, processes and children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tvm_neocpu.storage.file_lock import FileLock

pytest.importorskip("fcntl", reason="without it nothing is locked")


def test_one_thread_at_a_time(tmp_path: Path) -> None:
    """Holders remove the file, so those that wait meet it gone, and another one in its place."""
    path, inside, most = tmp_path / "entry.lock", [], []

    def work() -> None:
        for _ in range(20):
            lock = FileLock(path)
            assert lock.acquire(60)
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.0005)
            inside.pop()
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80 and max(most) == 1
    assert not path.exists()


def test_who_does_not_wait_is_told_at_once(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "entry.lock"), FileLock(tmp_path / "entry.lock")
    assert first.acquire(0)
    assert not second.acquire(0)
    second.release()  # it holds nothing, so nothing is removed
    assert first.path.exists()
    first.release()
    assert second.acquire(0)
    second.release()


def test_a_file_that_somebody_removed_is_another_holders_now(tmp_path: Path) -> None:
    first, second, third = (FileLock(tmp_path / "entry.lock") for _ in range(3))
    assert first.acquire(0)
    first.path.unlink()
    assert second.acquire(0)
    first.release()
    assert not third.acquire(0)
    second.release()


def test_a_holder_that_is_killed_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "entry.lock"
    script = (
        "import os, pathlib, signal, sys\n"
        "from tvm_neocpu.storage.file_lock import FileLock\n"
        "assert FileLock(pathlib.Path(sys.argv[1])).acquire(0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == -9
    assert path.exists()
    lock = FileLock(path)
    assert lock.acquire(0)
    lock.release()


def test_a_child_neither_unlocks_for_its_parent_nor_holds_for_it(tmp_path: Path) -> None:
    lock, other = FileLock(tmp_path / "entry.lock"), FileLock(tmp_path / "entry.lock")
    assert lock.acquire(0)
    asked, ask = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()
        os.write(ask, b"released")
        time.sleep(60)
        os._exit(0)
    try:
        assert os.read(asked, 8) == b"released"
        assert not other.acquire(0)
        lock.release()
        assert other.acquire(0)
        other.release()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(asked)
        os.close(ask)


def test_a_folder_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        FileLock(tmp_path / "missing" / "entry.lock").acquire(0)
