"""Ranking configurations without measuring: the cost model over every registered implementation."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import Candidate, has_blocks, layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.moves import copying_seconds
from tvm_neocpu.topi.operator import Blocks, Implementation, Price
from tvm_neocpu.topi.table import implementation_of, implementations, space_of


def predict_seconds(workload: Workload, config: Config, cpu: Cpu) -> float:
    """Predicted seconds of one run on ``cpu.cores`` threads; raises ConfigError if unregistered."""
    return implementation_of(config).cost(workload, config, cpu)


class Predictions:
    """Predicted seconds of one workload's configs; each is computed once, what they share too."""

    def __init__(self, workload: Workload, cpu: Cpu) -> None:
        self._workload, self._cpu = workload, cpu
        self._prices: dict[str, Callable[[Any], float]] = {}
        self._known: dict[Config, float] = {}

    def __call__(self, config: Config) -> float:
        """Raises ConfigError for a config of a template that is not registered."""
        seconds = self._known.get(config)
        if seconds is None:
            seconds = self._known[config] = self._price_of(config)(config)
        return seconds

    def _price_of(self, config: Config) -> Callable[[Any], float]:
        if config.template not in self._prices:
            entry = implementation_of(config)
            self._prices[config.template] = entry.price(self._workload, self._cpu)
        return self._prices[config.template]


def ranked(workload: Workload, cpu: Cpu) -> list[Candidate]:
    """The whole space, the cheapest prediction first: the order in which tuners try it."""
    return _sorted(workload, space_of(workload, cpu), cpu)


def best_per_layout(
    workload: Workload,
    cpu: Cpu,
    without: frozenset[Config] = frozenset(),
    computes_data: bool = False,
    offered: frozenset[int] = frozenset(),
) -> tuple[Candidate, ...]:
    """The cheapest config of every (input, output) layout pair worth considering, ascending.

    Blocks that fill whole vectors are considered, or the widest ones where no such factor exists,
    and to read the blocks that are ``offered``. ``without`` are configs that are known not to work.
    ``computes_data``: the data are a concat, or scaled, as the template reads them; a config that
    copies them apart pays for the copy.
    """
    entries = implementations(workload, cpu)
    settings = tuple(entry.settings() for entry in entries)
    return _best_per_layout(workload, cpu, without, computes_data, offered, entries, settings)


@lru_cache(maxsize=4096)
def _best_per_layout(
    workload: Workload,
    cpu: Cpu,
    without: frozenset[Config],
    computes_data: bool,
    offered: frozenset[int],
    entries: tuple[Implementation, ...],
    settings: tuple[Hashable, ...],
) -> tuple[Candidate, ...]:
    """Remembered for as long as the same implementations are registered, under equal settings."""
    favoured = _favoured_by(workload, entries, cpu, offered)
    tried = [config for config in favoured if config not in without] if without else favoured
    prices = _prices(workload, tried, cpu)
    copies_apart = {entry.name: entry.copies_apart for entry in entries}
    copy = copying_seconds(workload, cpu) if computes_data else 0.0
    best: dict[Hashable, tuple[float, int]] = {}
    # The largest tiles, which are the last, are seldom slow: most others are then found slower
    # before their traffic is counted. Of equals the first one counts.
    for place in range(len(tried) - 1, -1, -1):
        config: Any = tried[place]
        pair = (config.ic_bn, config.oc_bn) if has_blocks(config) else None
        limit = best[pair][0] if pair in best else math.inf
        seconds = prices[config.template](config, limit)
        if copy and seconds <= limit and copies_apart[config.template](workload, config):
            seconds += copy
        if seconds <= limit:
            best[pair] = seconds, place
    return tuple(Candidate(tried[place], seconds) for seconds, place in sorted(best.values()))


def best_config(workload: Workload, before: Layout, after: Layout, cpu: Cpu) -> Config | None:
    """The cost model's choice under given layouts; ``None`` where no template offers them."""
    space = [c for c in space_of(workload, cpu) if layouts_of(c) == (before, after)]
    return _sorted(workload, space, cpu)[0].config if space else None


def _sorted(workload: Workload, space: Sequence[Config], cpu: Cpu) -> list[Candidate]:
    prices = _prices(workload, space, cpu)
    candidates = [Candidate(config, prices[config.template](config)) for config in space]
    return sorted(candidates, key=lambda candidate: candidate.seconds)


def _prices(workload: Workload, space: Sequence[Config], cpu: Cpu) -> dict[str, Price]:
    """What predicts the seconds of configs, by template."""
    one_of_each = {config.template: config for config in space}
    return {name: implementation_of(one).price(workload, cpu) for name, one in one_of_each.items()}


def favoured_of(workload: Workload, space: Sequence[Config], cpu: Cpu) -> list[Config]:
    """Configs whose blocks fill whole vectors; all of those that have no blocks."""
    blocked: list[Any] = [config for config in space if has_blocks(config)]
    wanted = _whole_vectors(
        {config.ic_bn for config in blocked}, {config.oc_bn for config in blocked}, workload, cpu
    )
    plain = [config for config in space if not has_blocks(config)]
    # A depthwise multiplier ties oc_bn to ic_bn: no pair may be wide on both sides.
    return plain + (
        _with_blocks(blocked, wanted) or [c for c in blocked if c.oc_bn in wanted.written]
    )


def _favoured_by(
    workload: Workload, entries: Sequence[Implementation], cpu: Cpu, offered: frozenset[int]
) -> list[Config]:
    """:func:`favoured_of` the whole space, of which large parts are not listed for it."""
    known = {entry.name: entry.blocks(workload, cpu) for entry in entries if entry.blocks}
    listed = {e.name: e.space(workload, cpu) for e in entries if e.name not in known}
    blocked: list[Any] = [c for space in listed.values() for c in space if has_blocks(c)]
    read, written = {c.ic_bn for c in blocked}, {c.oc_bn for c in blocked}
    for found in known.values():
        read |= found.read
        written |= found.written
    wanted = _whole_vectors(read, written, workload, cpu)
    if offered:
        pairs = {(c.ic_bn, c.oc_bn) for c in blocked}
        wanted = _with_offered(wanted, offered, pairs)
    space: list[Config] = []
    for entry in entries:
        part = entry.part_of_space
        space += listed[entry.name] if part is None else part(workload, cpu, wanted)
    both = _with_blocks([config for config in space if has_blocks(config)], wanted)
    if both:
        return [config for config in space if not has_blocks(config)] + both
    return favoured_of(workload, [c for e in entries for c in e.space(workload, cpu)], cpu)


def _with_blocks(blocked: Sequence[Any], wanted: Blocks) -> list[Config]:
    return [c for c in blocked if c.ic_bn in wanted.read and c.oc_bn in wanted.written]


def _whole_vectors(read: set[int], written: set[int], workload: Workload, cpu: Cpu) -> Blocks:
    """Plain NCHW (0), and blocks of whole vectors; failing these, blocks of shorter vectors at full
    rate, the widest three; failing those too the two widest blocks.
    """
    unit = cpu.unit(workload.types.accumulator)

    def of(blocks: set[int]) -> frozenset[int]:
        whole = {block for block in blocks if block % unit.lanes == 0}
        if any(whole):
            return frozenset(whole)
        at_full_rate = sorted(b for b in blocks if b and b % unit.full_rate_lanes == 0)
        return frozenset(whole | set(at_full_rate[-3:] or sorted(blocks)[-2:]))

    return Blocks(of(read), of(written))


def _with_offered(wanted: Blocks, offered: frozenset[int], pairs: set[tuple[int, int]]) -> Blocks:
    """The blocks, and those in which the data come; a depthwise layer writes what it reads."""
    is_tied = len(pairs) == len({read for read, _ in pairs})
    written = {block for read, block in pairs if is_tied and read in offered}
    return Blocks(wanted.read | offered, wanted.written | written)
