"""Ranking configurations without measuring: the cost model over every registered implementation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.strategy import (
    Implementation,
    implementation_of,
    implementations,
    space_of,
)


def predict_seconds(workload: Workload, config: Config, cpu: Cpu) -> float:
    """Predicted seconds of one run on ``cpu.cores`` threads; raises ConfigError if unregistered."""
    return implementation_of(config).cost(workload, config, cpu)


def ranked(workload: Workload, cpu: Cpu) -> list[Candidate]:
    """The whole space, the cheapest prediction first: the order in which tuners try it."""
    return _sorted(workload, space_of(workload, cpu), cpu)


def best_per_layout(
    workload: Workload, cpu: Cpu, without: frozenset[Config] = frozenset()
) -> tuple[Candidate, ...]:
    """The cheapest config of every (input, output) layout pair worth considering, ascending.

    Blocks that fill whole vectors are considered, or the widest ones where no such factor exists.
    ``without`` are configs that are known not to work.
    """
    return _best_per_layout(workload, cpu, without, implementations(workload, cpu))


@lru_cache(maxsize=4096)
def _best_per_layout(
    workload: Workload, cpu: Cpu, without: frozenset[Config], _: tuple[Implementation, ...]
) -> tuple[Candidate, ...]:
    """Remembered for as long as the same implementations are registered."""
    favoured = _favoured(space_of(workload, cpu), cpu)
    space = [config for config in favoured if config not in without]
    best: dict[tuple[Layout, Layout], Candidate] = {}
    for candidate in _sorted(workload, space, cpu):
        best.setdefault(layouts_of(candidate.config), candidate)
    return tuple(best.values())


def best_config(workload: Workload, before: Layout, after: Layout, cpu: Cpu) -> Config | None:
    """The cost model's choice under given layouts; ``None`` where no template offers them."""
    space = [c for c in space_of(workload, cpu) if layouts_of(c) == (before, after)]
    return _sorted(workload, space, cpu)[0].config if space else None


def _sorted(workload: Workload, space: Sequence[Config], cpu: Cpu) -> list[Candidate]:
    candidates = [Candidate(c, predict_seconds(workload, c, cpu)) for c in space]
    return sorted(candidates, key=lambda candidate: candidate.seconds)


def _favoured(space: tuple[Config, ...], cpu: Cpu) -> list[Config]:
    blocks = [(getattr(config, "ic_bn", 0), config.oc_bn) for config in space]
    reads = _whole_vectors({before for before, _ in blocks}, cpu)
    writes = _whole_vectors({after for _, after in blocks}, cpu)
    pairs = zip(space, blocks, strict=True)
    return [config for config, (before, after) in pairs if before in reads and after in writes]


def _whole_vectors(blocks: set[int], cpu: Cpu) -> set[int]:
    """Plain NCHW (0), and blocks of whole vectors; failing these the two widest blocks."""
    whole = {block for block in blocks if block % cpu.lanes == 0}
    return whole if any(whole) else whole | set(sorted(blocks)[-2:])
