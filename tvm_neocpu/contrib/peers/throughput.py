"""Calls that engines answer a second, each in its best settings, in a process of its own.

Ours: a session with ``hint="throughput"``. ONNX Runtime: one session on all threads, and one
thread a call with as many callers; the better counts. OpenVINO: its throughput hint, which chooses
streams, and its queue of requests.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.peers.table import OURS

# Of one turn; engines take turns, because a machine's speed drifts.
SECONDS = 1.0
PAUSE_SECONDS = 0.5


class OurRate:
    """A session over the ONNX file, compiled for streams of one thread, or from the cache.

    A second run begins to time at once, because the cache has what the first one compiled.
    """

    def __init__(self, network: Network) -> None:
        from tvm_neocpu.session import Session
        from tvm_neocpu.tuning.database.history import apply_history_best

        with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
            path = Path(folder) / "net.onnx"
            path.write_bytes(network.content)
            with apply_history_best(network.logs):
                self._session = Session(
                    path, network.threads, "throughput", shapes=dict(network.shapes)
                )
        self._inputs = network.inputs

    def rate(self, seconds: float) -> float:
        # One for each stream: a MobileNet-v2 with two for each answers 2 % fewer calls (Zen 4).
        callers = self._session.streams
        return calls_per_second(lambda: self._session.run(self._inputs), callers, seconds)


class OnnxRuntimeRate:
    def __init__(self, network: Network) -> None:
        from tvm_neocpu.contrib.peers.onnx_runtime import session_of

        self._settings = [(network.threads, 1), (1, network.threads)]
        self._sessions = [session_of(network, threads) for threads, _ in self._settings]
        self._inputs = network.inputs

    def rate(self, seconds: float) -> float:
        rates = []
        for session, (_, callers) in zip(self._sessions, self._settings, strict=True):
            rates.append(
                calls_per_second(partial(session.run, None, self._inputs), callers, seconds / 2)
            )
            time.sleep(PAUSE_SECONDS)  # its threads spin on
        return max(rates)


class OpenVinoRate:
    def __init__(self, network: Network) -> None:
        import openvino

        from tvm_neocpu.contrib.peers.openvino_cpu import compiled

        self._queue = openvino.AsyncInferQueue(compiled(network, "THROUGHPUT"))
        self._inputs = network.inputs

    def rate(self, seconds: float) -> float:
        for _ in range(len(self._queue)):
            self._queue.start_async(self._inputs)
        self._queue.wait_all()
        start, calls = time.perf_counter(), 0
        while time.perf_counter() < start + seconds:
            self._queue.start_async(self._inputs)
            calls += 1
        self._queue.wait_all()
        return calls / (time.perf_counter() - start)


ENGINES: Mapping[str, Callable[[Network], Any]] = {
    OURS: OurRate,
    "ONNX Runtime": OnnxRuntimeRate,
    "OpenVINO": OpenVinoRate,
}


class IsolatedRate(IsolatedRunner):
    """One engine's rate, in a process of its own. Raises EngineError."""

    def __init__(self, engine: str, network: Network) -> None:
        super().__init__(partial(ENGINES[engine], network))

    def rate(self, seconds: float) -> float:
        found: float = self._ask("rate", seconds)
        return found


def compare_rates(runners: Mapping[str, IsolatedRate], turns: int) -> dict[str, float]:
    """Calls a second of each engine: the median of its turns."""
    rates: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(turns):
        for name, runner in runners.items():
            time.sleep(PAUSE_SECONDS)
            rates[name].append(runner.rate(SECONDS))
    return {name: median(found) for name, found in rates.items()}


def calls_per_second(call: Callable[[], object], callers: int, seconds: float) -> float:
    """Calls that are answered a second while so many threads call without a pause."""
    call()
    end = time.perf_counter() + seconds
    counts = [0] * callers

    def keep_calling(number: int) -> None:
        while time.perf_counter() < end:
            call()
            counts[number] += 1

    threads = [threading.Thread(target=keep_calling, args=(n,)) for n in range(callers)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)
