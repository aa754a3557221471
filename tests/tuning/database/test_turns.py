"""One tuner measures at a time, and none keeps the turn when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tvm_neocpu.tuning.database import turns
from tvm_neocpu.tuning.database.log import TuningLogWarning
from tvm_neocpu.tuning.database.turns import measuring_turn

HOLD = """
import sys, time
from tvm_neocpu.tuning.database.turns import measuring_turn
with measuring_turn():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(user_data: Path):
    """Another process that has the turn."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_turn_ends_with_the_process_that_has_it(holder: subprocess.Popen[str]) -> None:
    waited: list[str] = []

    def on_wait(who: str) -> None:
        waited.append(who)
        os.kill(holder.pid, signal.SIGKILL)

    with measuring_turn(on_wait):
        who = f"process {holder.pid} (-c)"
        assert waited == [f"waiting for {who}, which measures on this machine"]


def test_nobody_waits_where_nobody_measures(user_data: Path) -> None:
    for _ in range(2):
        with measuring_turn(pytest.fail):
            assert turns.lock_file() == user_data / "measuring.lock"


def test_a_turn_inside_a_turn_is_the_same() -> None:
    with measuring_turn(), measuring_turn(pytest.fail):
        pass


def test_threads_take_turns() -> None:
    inside: list[str] = []

    def measure() -> None:
        with measuring_turn():
            inside.append("begin")
            time.sleep(0.02)
            inside.append("end")

    threads = [threading.Thread(target=measure) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == ["begin", "end"] * 3


def test_a_forked_worker_does_not_keep_its_parents_turn() -> None:
    ready, done = os.pipe(), os.pipe()
    with measuring_turn():
        child = os.fork()
        if child == 0:  # outlives the parent's turn
            os.write(ready[1], b"x")
            os.read(done[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
    script = "from tvm_neocpu.tuning.database.turns import measuring_turn as m\nwith m(print): pass"
    try:
        found = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
        )
        assert found.stdout == ""
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)


def test_without_a_lock_nobody_waits_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TVM_NEOCPU_DATA", str(tmp_path / "file" / "data"))
    with pytest.warns(TuningLogWarning, match="cannot take turns"), measuring_turn():
        pass


def test_without_a_database_the_lock_is_in_the_systems_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVM_NEOCPU_DATA", "off")
    assert str(os.getuid()) in turns.lock_file().name
