"""`kill -9` at random moments of `tune`: the log parses, nothing is lost, the next run goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import onnx
import psutil
import pytest

from tvm_neocpu.tuning.database.log import LogContents, TuningLogWarning, load_log

KILLS = 20
# The processes of a session end by themselves when it is gone.
ORPHAN_SECONDS = 30


def loaded(log: Path) -> LogContents:
    """What the log says; at most a line for each kill is torn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        return load_log(log)


def left_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end; waits in steps, as the clock goes on while somebody stops us all."""
    for _ in range(ORPHAN_SECONDS):
        _, processes = psutil.wait_procs(processes, 1.0)
    return processes


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_and_the_next_run_goes_on(
    tmp_path: Path, tiny_cnn: onnx.ModelProto, user_data: Path
) -> None:
    model, log = tmp_path / "tiny.onnx", tmp_path / "tiny.log"
    onnx.save(tiny_cnn, model)
    command = [sys.executable, "-m", "tvm_neocpu.tune", str(model)]
    command += ["--threads", "1", "--target", "llvm -num-cores=1"]
    few = ["--trials", "4"]  # such a session settles nothing

    def started(path: Path, *more: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TVM_NUM_THREADS": "1"}
        output = (tmp_path / "output").open("wb")
        with output:
            return subprocess.Popen(
                [*command, "--log", str(path), *more],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said() -> str:
        return (tmp_path / "output").read_text()

    begun = time.monotonic()
    assert started(tmp_path / "first.log", *few).wait() == 0, said()
    whole = time.monotonic() - begun

    rng = random.Random(7)
    moments = [whole * (number + rng.random()) / KILLS for number in range(KILLS)]
    rng.shuffle(moments)
    before, killed = b"", 0
    for moment in moments:
        # What is settled would end at once: it is measured again.
        again = ["--no-resume"] if log.exists() and loaded(log).verdicts else []
        process = started(log, *few, *again)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            killed += 1
            assert not left_of(children)
        process.wait()
        now = log.read_bytes() if log.exists() else b""
        # A torn last line is ended by the next writer: what was whole stays as it was.
        whole_lines = before[: before.rfind(b"\n") + 1]
        assert now.startswith(whole_lines)
        before = now
    assert killed >= KILLS // 2

    found = loaded(log)
    assert found.records
    assert len(found.skipped) <= killed
    assert all(why.startswith("not JSON") for _, why in found.skipped)
    assert started(log).wait() == 0, said()
    last = loaded(log)
    assert last.plans and last.verdicts
    assert last.records[: len(found.records)] == found.records
    assert last.settled[: len(found.settled)] == found.settled
    assert last.settled
    assert started(log).wait() == 0, said()
    assert "tuned before" in said()
    assert loaded(log).records == last.records
