"""Ctrl-C during the start of `tune`: it ends at once, whatever its processes do, and they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import psutil
import pytest

import tvm_neocpu
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED
from tvm_neocpu.tuning.database.log import load_log

# `tune` with processes that never end a build; a file says that it began.
ENDLESS = """
import pathlib, signal, sys, time
from tvm_neocpu.commands import tune
from tvm_neocpu.tuning.in_network.processes import workers

class Endless:
    def __init__(self, open_network):
        pass

    def build(self, *_, reached=sys.argv[1]):
        pathlib.Path(reached).touch()
        time.sleep(600)

# A shell that starts tests in the background lets them ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
workers.NetworkMachine = Endless
raise SystemExit(tune.main(sys.argv[2:]))
"""
SECONDS = 20.0  # of a loaded machine; some two


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_ctrl_c_during_the_start(
    tmp_path: Path, tiny_cnn: onnx.ModelProto, user_data: Path
) -> None:
    model, log, reached = tmp_path / "tiny.onnx", tmp_path / "tiny.log", tmp_path / "reached"
    onnx.save(tiny_cnn, model)
    command = [sys.executable, "-c", ENDLESS, str(reached), str(model), "--log", str(log)]
    process = subprocess.Popen(
        [*command, "--threads", "1", "--target", "llvm -num-cores=1"],
        env={**os.environ, "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not reached.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        for _ in range(2):  # the impatient press it again
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.05)
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    # The second may meet Python's own end, which no handler sees: a shell shows 130, too.
    assert process.returncode in (INTERRUPTED, -signal.SIGINT)
    assert "Traceback" not in err
    assert "interrupted" in out + err  # a busy machine's warning may stand behind it
    assert children
    assert not psutil.wait_procs(children, SECONDS)[1]
    assert not load_log(log).skipped
