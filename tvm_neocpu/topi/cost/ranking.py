"""Ranking configurations without measuring: the cost model over every registered implementation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from tvm_neocpu.core.candidate import Candidate, has_blocks, layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import implementation_of, implementations, space_of


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
    entries = implementations(workload, cpu)
    settings = tuple(entry.settings() for entry in entries)
    return _best_per_layout(workload, cpu, without, entries, settings)


@lru_cache(maxsize=4096)
def _best_per_layout(
    workload: Workload,
    cpu: Cpu,
    without: frozenset[Config],
    entries: tuple[Implementation, ...],
    settings: tuple[Hashable, ...],
) -> tuple[Candidate, ...]:
    """Remembered for as long as the same implementations are registered, under equal settings."""
    space = tuple(config for entry in entries for config in entry.space(workload, cpu))
    favoured = favoured_of(workload, space, cpu)
    tried = [config for config in favoured if config not in without]
    best: dict[tuple[Layout, Layout], Candidate] = {}
    for candidate in _sorted(workload, tried, cpu):
        best.setdefault(layouts_of(candidate.config), candidate)
    return tuple(best.values())


def best_config(workload: Workload, before: Layout, after: Layout, cpu: Cpu) -> Config | None:
    """The cost model's choice under given layouts; ``None`` where no template offers them."""
    space = [c for c in space_of(workload, cpu) if layouts_of(c) == (before, after)]
    return _sorted(workload, space, cpu)[0].config if space else None


def _sorted(workload: Workload, space: Sequence[Config], cpu: Cpu) -> list[Candidate]:
    costs = {template: implementation_of(c).cost for template, c in _one_of_each(space).items()}
    candidates = [Candidate(c, costs[c.template](workload, c, cpu)) for c in space]
    return sorted(candidates, key=lambda candidate: candidate.seconds)


def _one_of_each(space: Sequence[Config]) -> dict[str, Config]:
    """A config of every template in the space."""
    return {config.template: config for config in space}


def favoured_of(workload: Workload, space: Sequence[Config], cpu: Cpu) -> list[Config]:
    """Configs whose blocks fill whole vectors; all of those that have no blocks."""
    lanes = cpu.lanes(workload.types.accumulator)
    blocked: list[Any] = [config for config in space if has_blocks(config)]
    plain = [config for config in space if not has_blocks(config)]
    reads = _whole_vectors({config.ic_bn for config in blocked}, lanes)
    writes = _whole_vectors({config.oc_bn for config in blocked}, lanes)
    both = [c for c in blocked if c.ic_bn in reads and c.oc_bn in writes]
    # A depthwise multiplier ties oc_bn to ic_bn: no pair may be wide on both sides.
    return plain + (both or [c for c in blocked if c.oc_bn in writes])


def _whole_vectors(blocks: set[int], lanes: int) -> set[int]:
    """Plain NCHW (0), and blocks of whole vectors; failing these the two widest blocks."""
    whole = {block for block in blocks if block % lanes == 0}
    return whole if any(whole) else whole | set(sorted(blocks)[-2:])
