"""Timing kernels of a network: each implementation's best config, and the cost model's choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import tvm

from tvm_neocpu.contrib.kernels.tile_peak import Ruler
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import Types
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.topi.cost.ranking import ranked
from tvm_neocpu.topi.kernel import kernel

REPEAT = 7
MIN_REPEAT_MS = 20
# The peak kernel of a workload's types and ``weight_bits``.
PeakOf = Callable[[Types, int], Ruler]
# Every integer type of at least a byte holds them.
INTEGERS = 100


@dataclass(frozen=True)
class KernelTime:
    """One config of one workload: seconds of a run, and the FMA peak measured right beside it.

    ``predicted`` is the cost model's seconds, ``rank`` its place in the model's order.
    """

    workload: Workload
    config: Config
    seconds: float
    peak: float
    predicted: float
    rank: int
    occurrences: int = 1

    @property
    def gflops(self) -> float:
        """Effective: Winograd is credited with the direct algorithm's operations."""
        return self.workload.flops / self.seconds / 1e9

    @property
    def share_of_peak(self) -> float:
        return self.gflops / self.peak

    @property
    def moved_bytes(self) -> int:
        """The least it can move: data, weights and output once."""
        return self.workload.min_bytes


def time_workloads(
    workloads: Mapping[Workload, int], target: CompileTarget, tries: int, peak: PeakOf
) -> Iterator[list[KernelTime]]:
    """For each workload, the fastest of the ``tries`` best ranked configs of every implementation.

    The cost model's own choice comes first; ``workloads`` says how often each occurs.
    """
    for workload, count in workloads.items():
        yield time_workload(
            workload, target, tries, peak(workload.types, workload.weight_bits), count
        )


def time_workload(
    workload: Workload, target: CompileTarget, tries: int, peak: Ruler, occurrences: int = 1
) -> list[KernelTime]:
    """See :func:`time_workloads`."""
    chosen: KernelTime | None = None
    best: dict[str, KernelTime] = {}
    for rank, candidate in _shortlist(workload, target.cpu, tries):
        timed = KernelTime(
            workload,
            candidate.config,
            time_kernel(workload, candidate.config, target),
            peak.gflops(),
            candidate.seconds,
            rank,
            occurrences,
        )
        chosen = timed if rank == 0 else chosen
        known = best.get(timed.config.template)
        if known is None or timed.share_of_peak > known.share_of_peak:
            best[timed.config.template] = timed
    first = [chosen] if chosen is not None else []
    return first + [timed for timed in best.values() if timed is not chosen]


def time_kernel(workload: Workload, config: Config, target: CompileTarget) -> float:
    """Median seconds of one run on random data, caches warm."""
    func = kernel(workload, config, target.cpu)
    module = tvm.compile(func, target=target.target).jit()
    rng = np.random.default_rng(0)
    arguments = [
        random_tensor([int(extent) for extent in buffer.shape], str(buffer.dtype), rng)
        for buffer in func.params
    ]
    timer = module.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=REPEAT, min_repeat_ms=MIN_REPEAT_MS
    )
    return median(timer(*arguments).results)


def random_tensor(shape: list[int], dtype: str, rng: np.random.Generator) -> tvm.runtime.Tensor:
    """Elements of that type: from 0 to 1, or whole numbers below :data:`INTEGERS`."""
    if np.issubdtype(dtype, np.floating):
        return tvm.runtime.tensor(rng.random(shape).astype(dtype))
    return tvm.runtime.tensor(rng.integers(0, INTEGERS, shape).astype(dtype))


def _shortlist(workload: Workload, cpu: Cpu, tries: int) -> Iterator[tuple[int, Any]]:
    """(rank, candidate): the first ``tries`` of every implementation, in the model's order."""
    taken: Counter[str] = Counter()
    for rank, candidate in enumerate(ranked(workload, cpu)):
        taken[candidate.config.template] += 1
        if taken[candidate.config.template] <= tries:
            yield rank, candidate
