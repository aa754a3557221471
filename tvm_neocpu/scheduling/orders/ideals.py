"""A search over ideals: the sets of nodes that may have run, as bits of an integer.

The order inside an ideal does not matter for what follows, so the smallest peak is a shortest path
over ideals whose length is the max over its steps, and best-first search finds it. Two rules keep
it small:

* The peak of a path is at least ``floor``, a bound for every order. Paths below it are alike, and
  the one that got furthest goes first.
* A ready node that leaves no more alive than before, and whose own step is no higher than the peak
  so far, runs at once. Any completion can be reordered so: what the node frees is freed earlier,
  and every other tensor lives no longer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph


@dataclass(frozen=True)
class Found:
    """``order`` is optimal; ``None`` if none is below the ceiling, or the search was cut.

    ``bound``: no order has a smaller peak. ``states``: how many ideals were expanded. ``is_cut``:
    whether the search ended before it had an answer.
    """

    order: tuple[int, ...] | None
    bound: int
    states: int
    is_cut: bool = False


class _State(NamedTuple):
    """What has run, what may run next, bytes alive, the largest live set so far."""

    done: int
    ready: int
    alive: int
    peak: int


class IdealSearch:
    """The graph's masks, made once for many searches.

    ``looks``: how many ready nodes all of them together may still look at, a microsecond each. An
    ideal of a wide graph has many, and all of them are looked at after each step. No clock: the
    same graph gets the same order on every machine.
    """

    def __init__(self, graph: ScheduleGraph, looks: float = inf) -> None:
        self.looks = looks
        self._graph = graph
        self._made = [node.out_bytes for node in graph.nodes]
        self._needs = [node.out_bytes + node.work_bytes for node in graph.nodes]
        # Per node: the tensors that it may release, with all readers of each.
        self._reads = [
            [(s, _mask(graph.succs[s])) for s in sources if not graph.is_output[s]]
            for sources in graph.preds
        ]
        self._preds = [_mask(sources) for sources in graph.preds]
        self._succs = [_mask(readers) for readers in graph.succs]

    def best(
        self, before: Sequence[int], window: Sequence[int], floor: int, ceiling: int, limit: int
    ) -> Found:
        """The best order of ``window`` behind ``before``; its peak is below ``ceiling``.

        ``before`` and both together are ideals. ``floor`` is a peak that costs nothing.
        ``limit``: ideals to expand at most.
        """
        start, goal = _mask(before), _mask(before) | _mask(window)
        ready = _mask(n for n in window if not self._preds[n] & ~start)
        first = _State(start, ready, self._alive_after(start), floor)
        queue = [(floor, 0, 0, first)]
        parents: dict[int, tuple[int, tuple[int, ...]]] = {start: (start, ())}
        peaks = {start: floor}
        pushed = states = 0
        while queue:
            peak, _, _, state = heapq.heappop(queue)
            if state.done == goal:
                return Found(_unwound(parents, start, goal), peak, states)
            if peak > peaks[state.done]:
                continue
            if states >= limit or self.looks <= 0:
                return Found(None, peak, states, is_cut=True)
            states += 1
            self.looks -= state.ready.bit_count()
            for node in _bits(state.ready):
                after, ran = self._settled(self._run(state, node, goal), node, goal)
                if after.peak < ceiling and after.peak < peaks.get(after.done, ceiling):
                    peaks[after.done] = after.peak
                    parents[after.done] = (state.done, ran)
                    pushed += 1
                    entry = (after.peak, -after.done.bit_count(), pushed, after)
                    heapq.heappush(queue, entry)
        return Found(None, ceiling, states)

    def _run(self, state: _State, node: int, goal: int) -> _State:
        done, ready, alive, peak = state
        done |= 1 << node
        ready &= ~(1 << node)
        todo, preds = ~done, self._preds
        for reader in self._graph.succs[node]:
            if goal >> reader & 1 and not preds[reader] & todo:
                ready |= 1 << reader
        needed = alive + self._needs[node]
        return _State(
            done, ready, alive + self._growth(done, node), needed if needed > peak else peak
        )

    def _growth(self, done: int, node: int) -> int:
        """Bytes more alive after the node has run; ``done`` has it."""
        growth, todo = self._made[node], ~done
        for source, readers in self._reads[node]:
            if not readers & todo:
                growth -= self._made[source]
        return growth

    def _settled(self, state: _State, node: int, goal: int) -> tuple[_State, tuple[int, ...]]:
        """The state after every node that costs nothing, and the nodes that ran."""
        ran = [node]
        free = self._free(state)
        while free is not None:
            state = self._run(state, free, goal)
            ran.append(free)
            free = self._free(state)
        return state, tuple(ran)

    def _free(self, state: _State) -> int | None:
        """A ready node that leaves no more alive and needs no more than the peak so far."""
        done, ready, alive, peak = state
        room, needs = peak - alive, self._needs
        looks = 0
        while ready:  # most of a search: no generator, no call for a node that has no room
            low = ready & -ready
            ready ^= low
            looks += 1
            node = low.bit_length() - 1
            if needs[node] <= room and self._growth(done | low, node) <= 0:
                self.looks -= looks
                return node
        self.looks -= looks
        return None

    def _alive_after(self, done: int) -> int:
        return sum(
            node.out_bytes
            for at, node in enumerate(self._graph.nodes)
            if done >> at & 1 and (self._graph.is_output[at] or self._succs[at] & ~done)
        )


def _mask(nodes: Sequence[int] | Iterator[int]) -> int:
    found = 0
    for node in nodes:
        found |= 1 << node
    return found


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _unwound(
    parents: dict[int, tuple[int, tuple[int, ...]]], start: int, goal: int
) -> tuple[int, ...]:
    steps: list[tuple[int, ...]] = []
    while goal != start:
        goal, ran = parents[goal]
        steps.append(ran)
    return tuple(node for ran in reversed(steps) for node in ran)
