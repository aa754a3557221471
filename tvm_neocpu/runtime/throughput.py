"""How a session's threads are split into streams so that most calls are answered: by measuring.

With s streams of t threads each, s * t = all threads. Many streams waste no time at the ends of
parallel loops; few streams share what is in the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from numpy.typing import NDArray

from tvm_neocpu.runtime.calls.feed import Feed
from tvm_neocpu.runtime.ffi.arrays import aligned_zeros
from tvm_neocpu.runtime.files.module_info import ModuleInfo
from tvm_neocpu.runtime.streams.streams import Streams

Array = NDArray[Any]
# Measured in turns, for so long each: a machine's speed drifts.
ROUNDS = 3
SECONDS = 0.1
# More streams must be faster by that much: they take more memory, and each call takes longer.
GAIN = 1.03


def best_split(threads: int, start: Callable[[int], Streams[Feed]], info: ModuleInfo) -> int:
    """The number of streams, a divisor of ``threads``, that answers most calls a second.

    ``start`` makes so many streams of the network; they are closed again.
    """
    counts = divisors(threads)
    if len(counts) == 1:
        return counts[0]
    arrays = sample_inputs(info)
    running = {count: start(count) for count in counts}
    try:
        for streams in running.values():
            streams.each(lambda feed: feed.run(arrays))
        rates: dict[int, list[float]] = {count: [] for count in counts}
        for _ in range(ROUNDS):
            for count, streams in running.items():
                rates[count].append(calls_per_second(streams, arrays, SECONDS))
    finally:
        for streams in running.values():
            streams.close()
    best = counts[0]
    for count in counts[1:]:
        if median(rates[count]) > GAIN * median(rates[best]):
            best = count
    return best


def divisors(number: int) -> list[int]:
    """``6 -> [1, 2, 3, 6]``"""
    return [count for count in range(1, number + 1) if number % count == 0]


def sample_inputs(info: ModuleInfo) -> list[Array]:
    """Zeros for every input; the smallest batch where it is open."""
    entry = info.entries[0]
    shapes = entry.completed([None] * len(entry.inputs))
    return [
        aligned_zeros(shape, tensor.dtype)
        for tensor, shape in zip(entry.inputs, shapes, strict=True)
    ]


def calls_per_second(streams: Streams[Feed], arrays: Sequence[Array], seconds: float) -> float:
    """Calls that are answered a second, with every stream at work, for about ``seconds``."""
    end = time.perf_counter() + seconds

    def keep_running(feed: Feed) -> tuple[int, float]:
        calls, start = 0, time.perf_counter()
        while calls == 0 or time.perf_counter() < end:
            feed.run(arrays)
            calls += 1
        return calls, time.perf_counter() - start

    return sum(calls / took for calls, took in streams.each(keep_running))
