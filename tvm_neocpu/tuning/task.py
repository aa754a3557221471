"""One tuning task: a workload, the configs it may take, and how to build one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload


@dataclass(frozen=True)
class Task:
    """One workload to tune.

    ``predicted(config)`` is the cost model's seconds. ``build(config)`` returns a scheduled
    ``tvm.tirx.PrimFunc`` (or an IRModule with one ``main``) over the blocked layouts. It is called
    in a worker process, so it must survive cloudpickle and must not hold TVM objects (see
    :mod:`tvm_neocpu.tuning.measuring.build_candidate`). ``occurrences`` says how often the workload
    occurs in the network. ``favoured`` are configs of the space to look at first; empty: all.
    """

    name: str
    workload: Workload
    space: tuple[Config, ...]
    predicted: Callable[[Config], float]
    build: Callable[[Config], Any]
    occurrences: int = 1
    favoured: tuple[Config, ...] = ()
