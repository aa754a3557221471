"""What a busy neighbour costs: a session and its peers, alone and beside a process that spins.

    python benchmarks/networks/neighbour.py resnet18 resnet50 --json neighbour.json

Each engine has a process of its own and all cores. All engines run alone for some rounds, then as
many beside one process that computes without a pause, then alone again. Engines take turns, because
a machine's speed drifts. ``slower`` is the median beside the neighbour over the median alone;
``mean_slower`` contains the calls that found out. ``after_ms`` is the mean once it has left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.machine.cores import physical_cores
from tvm_neocpu.targets import parse_target

ALONE, BESIDE, AFTER = "alone", "beside", "after"
# Of one turn, and between two: ONNX Runtime's threads spin on after a call.
SECONDS, PAUSE_SECONDS = 1.0, 0.3


class OurSession(TimedRuns):
    """A session for latency, whose streams take fewer threads while a core is busy."""

    def __init__(self, network: Network) -> None:
        from tvm_neocpu import Session

        shapes = dict(network.shapes)
        self._session = Session(network.model, network.threads, shapes=shapes)
        self._inputs = network.inputs

    def run(self) -> None:
        self._session.run(self._inputs)


def onnx_runtime(network: Network) -> TimedRuns:
    """In the process that asks for it."""
    from tvm_neocpu.contrib.peers.onnx_runtime import OnnxRuntimeRunner

    return OnnxRuntimeRunner(network)


def openvino(network: Network) -> TimedRuns:
    """In the process that asks for it."""
    from tvm_neocpu.contrib.peers.openvino_cpu import OpenVinoRunner

    return OpenVinoRunner(network)


ENGINES: Mapping[str, Callable[[Network], TimedRuns]] = {
    "tvm_neocpu": OurSession,
    "ONNX Runtime": onnx_runtime,
    "OpenVINO": openvino,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each turn")
    parser.add_argument("--json", type=Path, metavar="F")
    options = parser.parse_args(arguments)
    rows = [compared(name, options.rounds, options.seconds) for name in options.networks]
    if options.json:
        cpu = parse_target().cpu
        about = provenance(cpu.name, physical_cores(), ("onnxruntime", "openvino"))
        report = {**about, "networks": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def compared(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """The row of one network, after a line about each engine."""
    shapes = {"data": model_zoo.input_shape(name)}
    network = Network(name, model_zoo.build(name), shapes, physical_cores())
    times: dict[str, dict[str, list[float]]] = {engine: {} for engine in ENGINES}
    with contextlib.ExitStack() as processes:
        engines = {
            engine: processes.enter_context(IsolatedRunner(partial(make, network)))
            for engine, make in ENGINES.items()
        }
        counts = {
            engine: max(1, round(seconds / statistics.median(runner.burst(5))))
            for engine, runner in engines.items()
        }
        for phase in (ALONE, BESIDE, AFTER):
            for _ in range(rounds):
                for engine, runner in engines.items():
                    time.sleep(PAUSE_SECONDS)
                    with busy_neighbour() if phase == BESIDE else contextlib.nullcontext():
                        found = runner.burst(counts[engine])
                    times[engine].setdefault(phase, []).extend(found)
    rows = {engine: _summary(phases) for engine, phases in times.items()}
    for engine, row in rows.items():
        print("{}: {}: {alone_ms} ms, {beside_ms} beside: x{slower}".format(name, engine, **row))
    return {"network": name, "engines": rows}


def _summary(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    alone, beside = (statistics.median(times[phase]) for phase in (ALONE, BESIDE))
    means = {phase: statistics.mean(found) for phase, found in times.items()}
    return {
        "alone_ms": round(alone * 1e3, 2),
        "beside_ms": round(beside * 1e3, 2),
        "after_ms": round(means[AFTER] * 1e3, 2),
        "slower": round(beside / alone, 2),
        "mean_slower": round(means[BESIDE] / means[ALONE], 2),
    }


@contextlib.contextmanager
def busy_neighbour() -> Iterator[None]:
    """One process that keeps a core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.1)  # its interpreter starts
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
