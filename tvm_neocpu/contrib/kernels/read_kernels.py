"""Kernels that read: how many bytes per second come from a cache, or from memory."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule

from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.targets import CompileTarget

# More bytes than most last-level caches hold.
STREAM_BYTES = 256 * 1024 * 1024
# Rows in flight, which decide one thread's bandwidth, and vectors of a row. Each vector has a sum
# of its own, which hides the latency of addition.
UNROLL, ACCUMULATORS = 4, 8
# What a thread reads from memory at a time.
PART_BYTES = 4 * 1024 * 1024


class ReadKernel:
    """Every thread sums its part of a buffer ``passes`` times, with few other instructions.

        parallel for thread:
            for again, row in (passes, rows):       # UNROLL rows unrolled
                total[0:lanes] += data[thread, row, 0:lanes]    # ACCUMULATORS vectors

    ``size`` is the buffer's bytes, all threads' parts together, rounded to whole steps. Several
    passes make a small buffer's run long against its call. ``dtype`` is what is summed.
    """

    def __init__(self, target: CompileTarget, dtype: str, size: int, passes: int = 1) -> None:
        lanes, threads = ACCUMULATORS * target.cpu.lanes(dtype), target.cpu.cores
        row_bytes = item_bytes(dtype) * lanes
        rows = max(1, size // (row_bytes * threads * UNROLL)) * UNROLL
        data = te.placeholder((threads, rows, lanes), dtype, name="data")
        again = te.reduce_axis((0, passes), name="again")
        k = te.reduce_axis((0, rows), name="k")
        total = te.compute(
            (threads, lanes), lambda t, v: te.sum(data[t, k, v], axis=[again, k]), name="total"
        )
        sch = Schedule(te.create_prim_func([data, total]))
        block = sch.get_sblock("total")
        write = sch.cache_write(block, 0, "local")
        thread, lane, again, steps = sch.get_loops(block)
        steps, unrolled = sch.split(steps, [None, UNROLL])
        sch.reorder(thread, again, steps, unrolled, lane)
        if threads > 1:
            sch.parallel(thread)
        sch.reverse_compute_at(write, thread)
        sch.unroll(unrolled)
        sch.vectorize(lane)
        zero = sch.decompose_reduction(block, again)
        sch.vectorize(sch.get_loops(zero)[-1])
        sch.vectorize(sch.get_loops(write)[-1])
        self.read_bytes = float(row_bytes * threads * rows * passes)
        self.arguments = [
            tvm.runtime.tensor(np.ones((threads, rows, lanes), dtype)),
            tvm.runtime.tensor(np.zeros((threads, lanes), dtype)),
        ]
        module = tvm.compile(sch.mod, target=target.target).jit()
        self._main = module["main"]
        self._timer = module.time_evaluator("main", tvm.cpu(), number=1, repeat=3)

    def bytes_per_second(self) -> float:
        """Bytes per second that all threads together read at this moment."""
        return self.read_bytes / float(median(self._timer(*self.arguments).results))


class ColdReadKernel(ReadKernel):
    """Reads a buffer of ``size`` bytes, larger than the caches, in parts of :data:`PART_BYTES`.

    Each part is timed alone, for a fraction of a millisecond: on a busy machine most parts are read
    while nobody else has the core. The other parts push it out of the caches until its next turn.
    """

    def __init__(self, target: CompileTarget, dtype: str, size: int) -> None:
        super().__init__(target, dtype, min(size, PART_BYTES * target.cpu.cores))
        data, self._total = self.arguments
        count = max(1, round(size / self.read_bytes))
        self._parts = [data, *(tvm.runtime.tensor(data.numpy()) for _ in range(count - 1))]

    def bytes_per_second(self) -> float:
        """Bytes per second of the part in the middle.

        Some parts lie better in memory than a network's weights do: on a Zen 4 the fastest reads
        35 GB/s, the one in the middle 28.
        """
        seconds = []
        for part in self._parts:
            start = time.perf_counter()
            self._main(part, self._total)
            seconds.append(time.perf_counter() - start)
        return self.read_bytes / float(median(seconds))


def read_bandwidth(target: CompileTarget, dtype: str) -> float:
    """GB/s at which all threads together sum a buffer far larger than the caches."""
    return ReadKernel(target, dtype, STREAM_BYTES).bytes_per_second() / 1e9
