"""Timing a kernel with the caches as it finds them inside its network.

Between two runs of a layer all the other layers run: they leave their own data in the caches and
the TLB. So what a network touches, or as much of it as the last-level cache could hold, is read
before each timed run, on every thread that has a cache of its own. Flushing the weights' cache
lines alone, as TVM's measuring can, leaves the input, the workspace and the page table entries of
the run before: Winograd layers of ResNet-18 took 1.4 times as long in the network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cache_sizes import cache_sizes
from tvm_neocpu.core.machine.cpu import MIB
from tvm_neocpu.core.types import item_bytes

EVICT = "tvm_neocpu.evict_caches"
# Of the last-level cache: replacement is not exactly least-recently-used.
ENOUGH = 1.25
DEFAULT_L3 = 32 * MIB
# The sweep adds words up, a cache line at a time; what the bytes mean does not matter to it.
WORD, LINE = "int64", 64


def evicted_bytes(touched: int) -> int:
    """How much of that is worth reading: a little more than the last-level cache holds."""
    return min(touched, int(ENOUGH * cache_sizes().get(3, DEFAULT_L3)))


def time_in_network(
    touched: int, threads: int, module: Any, device: Any, config: Any, argument_lists: Any
) -> list[float]:
    """meta_schedule's ``f_run_evaluator``, once the first two arguments are bound; seconds."""
    sweep = _sweeper(evicted_bytes(touched), threads)
    tvm.register_global_func(EVICT, lambda *_: sweep(), override=True)
    timer = module.time_evaluator(
        module.entry_name,
        device,
        number=config.number,
        repeat=config.repeat,
        min_repeat_ms=config.min_repeat_ms,
        f_preproc=EVICT,
    )
    return [float(cost) for arguments in argument_lists for cost in timer(*arguments).results]


@lru_cache(maxsize=1)
def _sweeper(size: int, threads: int) -> Callable[[], int]:
    """A function that reads ``size`` bytes, an equal share of whole cache lines on each thread.

    It returns how many bytes it read.
    """
    lines, words = max(1, size // (LINE * threads)), LINE // item_bytes(WORD)
    data = te.placeholder((threads, lines, words), WORD, name="data")
    k = te.reduce_axis((0, lines), name="k")
    total = te.compute((threads, words), lambda t, w: te.sum(data[t, k, w], [k]), name="total")
    sch = Schedule(te.create_prim_func([data, total]))
    block = sch.get_sblock("total")
    thread, word, line = sch.get_loops(block)
    sch.reorder(thread, line, word)
    sch.parallel(thread)
    sch.vectorize(word)
    read = tvm.compile(sch.mod, target="llvm").jit()["main"]
    source = tvm.runtime.tensor(np.ones((threads, lines, words), WORD))
    result = tvm.runtime.tensor(np.zeros((threads, words), WORD))

    def sweep() -> int:
        read(source, result)
        return item_bytes(WORD) * int(result.numpy().sum())

    return sweep
