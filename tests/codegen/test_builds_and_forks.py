"""A process that forks while another of its threads builds: its children build and run."""

from __future__ import annotations

import os
import threading
import time

import pytest
from fresh_process import FORK, run_script

from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.runtime.process import fork_gate

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX's")

# A thread imports, builds and exports; children begin the same at ``moments`` after its start.
SCRIPT = (
    FORK
    + """
import sys, threading, time
import numpy as np
import numpy.random  # both would be imported at their first use, in the thread: a fork would find
import tvm_neocpu.session  # them half imported, for ever
import onnx
from onnx import TensorProto, helper

import tvm_neocpu

def model(channels):
    rng = np.random.default_rng(channels)
    nodes, weights, before, read = [], [], "x", 3
    for layer in range(4):
        value = rng.standard_normal((channels + layer, read, 3, 3)).astype("float32")
        weights.append(onnx.numpy_helper.from_array(value, f"w{layer}"))
        nodes.append(helper.make_node("Conv", [before, f"w{layer}"], [f"c{layer}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        before, read = f"r{layer}", channels + layer
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 20, 20])],
        [helper.make_tensor_value_info(before, TensorProto.FLOAT, [1, read, 20, 20])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

def build(channels):
    session = tvm_neocpu.Session(model(channels), threads=1)
    return session.run({"x": np.ones((1, 3, 20, 20), "float32")})

ended = threading.Event()

def keep_building():
    channels = 8
    while not ended.is_set():
        build(channels)
        channels += 1

thread = threading.Thread(target=keep_building)
thread.start()
children = []
for number, moment in enumerate(map(float, sys.argv[1:])):
    time.sleep(moment)
    children.append(fork(lambda: bool(build(100 + number))))
found = [succeeded(child) for child in children]
ended.set()
thread.join()
assert all(found), found
"""
)


@pytest.mark.compiler
def test_children_of_a_process_that_builds_in_another_thread(tmp_path: object) -> None:
    run_script(SCRIPT, "0.05", "0.4", "0.3", "0.7", "0.9", TVM_NEOCPU_CACHE=str(tmp_path))


def _forked() -> int:
    """What a child, which takes the lock, exits with."""
    child = os.fork()
    if child == 0:
        with PYTHON_LOCK:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def test_a_fork_waits_for_a_build_to_pause_and_its_child_takes_the_lock() -> None:
    inside, ended = threading.Event(), threading.Event()
    log = []

    def build() -> None:
        with PYTHON_LOCK:
            inside.set()
            time.sleep(0.3)
            log.append("pauses")
            fork_gate.pause()
            log.append("goes on")
        ended.set()

    thread = threading.Thread(target=build)
    thread.start()
    assert inside.wait(10)
    assert _forked() == 0
    assert "pauses" in log
    thread.join(10)
    assert ended.is_set() and log == ["pauses", "goes on"]


def test_builders_may_fork_at_once() -> None:
    both, found = threading.Barrier(2), []

    def build() -> None:
        with fork_gate.building():
            both.wait(10)
            found.append(_forked())

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [0, 0]


def test_a_build_that_never_pauses_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fork_gate, "PATIENCE_SECONDS", 0.2)
    inside, forked = threading.Event(), threading.Event()

    def build() -> None:
        with fork_gate.building(pauses=False), fork_gate.pausing():
            inside.set()
            forked.wait(20)

    thread = threading.Thread(target=build)
    thread.start()
    assert inside.wait(10)
    assert _forked() == 0
    forked.set()
    thread.join(10)
    assert "does not pause" in caplog.text
