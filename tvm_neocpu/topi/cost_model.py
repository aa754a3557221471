"""Ranking configurations without measuring: the cost model over every registered implementation."""

from __future__ import annotations

from functools import lru_cache

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import DenseWorkload, Workload
from tvm_neocpu.topi.strategy import implementation_of, space_of


def predict_seconds(workload: Workload, config: Config, cpu: Cpu) -> float:
    """Predicted seconds of one run on ``cpu.cores`` threads; raises ConfigError if unregistered."""
    return implementation_of(config).cost(workload, config, cpu)


@lru_cache(maxsize=1024)
def ranked(workload: Workload, cpu: Cpu) -> tuple[tuple[float, Config], ...]:
    """(seconds, config) of the whole space, ascending."""
    costs = [(predict_seconds(workload, c, cpu), c) for c in space_of(workload, cpu)]
    return tuple(sorted(costs, key=lambda pair: pair[0]))


@lru_cache(maxsize=1024)
def best_per_layout(workload: Workload, cpu: Cpu) -> tuple[tuple[float, Config], ...]:
    """The cheapest config of every (input, output) layout pair, ascending."""
    best: dict[tuple[int, int], tuple[float, Config]] = {}
    for seconds, config in ranked(workload, cpu):
        best.setdefault(layouts_of(config), (seconds, config))
    return tuple(best.values())


def layouts_of(config: Config) -> tuple[int, int]:
    """(input block, output block); dense layers have none."""
    return (getattr(config, "ic_bn", 0), 0 if not hasattr(config, "ic_bn") else config.oc_bn)


def best_config(workload: Workload, before: Layout, after: Layout, cpu: Cpu) -> Config | None:
    """The cost model's choice under given layouts; ``None`` where no template offers them."""
    if isinstance(workload, DenseWorkload):
        pairs = ranked(workload, cpu)
        return pairs[0][1] if pairs else None
    for _, config in best_per_layout(workload, cpu):
        if layouts_of(config) == (before.block, after.block):
            return config
    return None
