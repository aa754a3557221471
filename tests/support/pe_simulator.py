"""An accelerator simulated cycle by cycle: slow, and written apart from the profiler's formulas.

Three engines work at once: a DMA engine with a queue for weights and one for tensors, an array
that holds one block of weights, a vector unit. Bands, clipped at the image's borders, run one after
the other; the next band's inputs are requested when a band begins, weights as far ahead as the
buffer for them allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.profilers.machine import PeMachine


@dataclass
class Request:
    size: float  # what is still to come
    issued: float
    done: bool = False
    whole: float = 0.0


@dataclass
class Dma:
    """Requests in turn, those for weights first; data comes ``latency`` cycles behind each."""

    machine: PeMachine
    weights: deque[Request] = field(default_factory=deque)
    tensors: deque[Request] = field(default_factory=deque)

    @property
    def is_busy(self) -> bool:
        return bool(self.weights or self.tensors)

    def tick(self, now: int) -> None:
        budget = self.machine.dram_bytes_per_cycle
        for queue in (self.weights, self.tensors):
            while queue and budget > 0 and now >= queue[0].issued + self.machine.latency:
                moved = min(budget, queue[0].size)
                queue[0].size -= moved
                budget -= moved
                if queue[0].size <= 0:
                    queue.popleft().done = True


def ask(queue: deque[Request], size: float, now: float) -> Request:
    queue.append(Request(size, now, whole=size))
    return queue[-1]


class Simulation:
    """One group of the graph in ``tiles`` bands. Inputs of the network lie in memory."""

    def __init__(
        self,
        graph: ScheduleGraph,
        group: Sequence[int],
        machine: PeMachine,
        tiles: int,
        keeps_weights: bool,
    ) -> None:
        self.graph, self.machine, self.keeps = graph, machine, keeps_weights
        self.group = [n for n in group if graph.nodes[n].kind is not OpKind.INPUT]
        self.bands = [self._band(at, tiles) for at in range(tiles)]
        self.bands = [band for band in self.bands if band]
        self.now = 0
        self.dma = Dma(machine)
        self.weights: deque[Request] = deque()
        self.unasked: deque[float] = deque()
        # The first block comes before the first band's inputs, the others behind them.
        self.ahead: float = machine.block_bytes

    def run(self) -> int:
        """Cycles from the first request to the last byte."""
        coming = self._ask_inputs(self.bands[0])
        for at, band in enumerate(self.bands):
            if at == 0 or not self.keeps:
                self._plan_weights()
            self._wait(coming)
            ahead = 2 * self.machine.block_bytes
            ahead += self.machine.latency * self.machine.dram_bytes_per_cycle
            self.ahead = float("inf") if self.keeps else ahead
            if at + 1 < len(self.bands):
                coming = self._ask_inputs(self.bands[at + 1])
            handled: set[int] = set()
            for node in self.group:
                if node not in handled:
                    loads = at == 0 or not self.keeps
                    handled |= self._layer(node, band, handled, loads)
            for node in self.group:
                if self._leaves(node):
                    first, last = self._part(node, at)
                    row_bytes = self.graph.nodes[node].out_bytes / self.graph.nodes[node].rows
                    # A store has no latency.
                    posted = self.now - self.machine.latency
                    ask(self.dma.tensors, (last - first) * row_bytes, posted)
        while self.dma.is_busy:
            self._tick()
        return self.now

    # Which rows.

    def _leaves(self, node: int) -> bool:
        readers = self.graph.succs[node]
        return self.graph.is_output[node] or any(r not in self.group for r in readers)

    def _part(self, node: int, at: int) -> tuple[int, int]:
        rows, tiles = self.graph.nodes[node].rows, self.tiles
        size = -(-rows // tiles)
        return min(rows, at * size), min(rows, (at + 1) * size)

    def _band(self, at: int, tiles: int) -> dict[int, tuple[int, int]]:
        """The rows of every tensor that band needs, from the last layer upwards."""
        self.tiles = tiles
        needed: dict[int, tuple[int, int]] = {}
        for node in reversed(self.group):
            if self._leaves(node):
                needed[node] = _union(needed.get(node), self._part(node, at))
            first, last = needed.get(node, (0, 0))
            if first >= last:
                continue
            own = self.graph.nodes[node]
            for source in self.graph.preds[node]:
                most = self.graph.nodes[source].rows
                if own.is_global:
                    rows = (0, most)
                else:
                    window = own.window
                    low = first * window.stride[0] - window.padding[0]
                    high = (last - 1) * window.stride[0] - window.padding[0] + window.rows
                    rows = (max(0, low), min(most, high))
                needed[source] = _union(needed.get(source), rows)
        return {node: rows for node, rows in needed.items() if rows[0] < rows[1]}

    # What happens.

    def _tick(self) -> None:
        self._request_weights()
        self.dma.tick(self.now)
        self.now += 1

    def _wait(self, requests: Sequence[Request]) -> None:
        while not all(request.done for request in requests):
            self._tick()

    def _ask_inputs(self, band: dict[int, tuple[int, int]]) -> list[Request]:
        asked = []
        for source, (first, last) in band.items():
            if source not in self.group:
                node = self.graph.nodes[source]
                size = (last - first) * node.out_bytes / node.rows
                asked.append(ask(self.dma.tensors, size, self.now))
        return asked

    def _plan_weights(self) -> None:
        for node in self.group:
            own = self.graph.nodes[node]
            if own.kind is OpKind.CONV:
                count = len(list(_blocks(own, self.machine)))
                self.unasked.extend([own.weight_bytes / count] * count)

    def _request_weights(self) -> None:
        held = sum(request.whole for request in self.weights)
        while self.unasked and held + self.unasked[0] <= self.ahead:
            held += self.unasked[0]
            self.weights.append(ask(self.dma.weights, self.unasked.popleft(), self.now))

    def _layer(
        self, node: int, band: dict[int, tuple[int, int]], handled: set[int], loads: bool
    ) -> set[int]:
        """Run a layer and what follows it in the vector unit; the nodes that ran."""
        own = self.graph.nodes[node]
        first, last = band.get(node, (0, 0))
        elements = (last - first) * own.out_bytes / own.rows / self.machine.element_bytes
        if own.kind is not OpKind.CONV:
            self._vector(own, node, elements, (last - first) / own.rows)
            return {node}
        followers = self._followers(node, handled)
        self._convolve(own, int((last - first) * own.shape[2]), loads, len(followers))
        return {node, *followers}

    def _followers(self, node: int, handled: set[int]) -> list[int]:
        """Elementwise operations in a row, whose other inputs are there."""
        found: list[int] = []
        last = node
        while True:
            readers = [r for r in self.graph.succs[last] if r in self.group]
            if len(readers) != 1 or self.graph.nodes[readers[0]].kind is not OpKind.ELEMENTWISE:
                return found
            there = {*handled, node, *found}
            if any(s in self.group and s not in there for s in self.graph.preds[readers[0]]):
                return found
            last = readers[0]
            found.append(last)

    def _vector(self, own: ScheduleNode, node: int, elements: float, share: float) -> None:
        speed = self.machine.elementwise_per_cycle
        if own.kind is OpKind.POOL:
            read = sum(self.graph.nodes[s].out_bytes for s in self.graph.preds[node])
            elements = max(elements, read / self.machine.element_bytes * share)
            speed = self.machine.pooled_per_cycle
        if own.kind in (OpKind.POOL, OpKind.ELEMENTWISE):
            while elements > 0:
                elements -= speed
                self._tick()

    def _convolve(self, own: ScheduleNode, pixels: int, loads: bool, followers: int) -> None:
        machine = self.machine
        waiting = 0.0  # results that the vector unit has to take, once for each follower
        blocks = list(_blocks(own, machine))
        in_array = machine.block_cycles  # cycles until the next block is in the array
        for outputs, is_last in blocks:
            if loads:
                while not self.weights or not self.weights[0].done:
                    self._tick()
                self.weights.popleft()
            while in_array > 0:
                in_array -= 1
                waiting = max(0.0, waiting - machine.elementwise_per_cycle)
                self._tick()
            in_array = machine.block_cycles
            for _ in range(pixels):
                in_array -= 1
                if is_last:
                    waiting += outputs * followers
                waiting = max(0.0, waiting - machine.elementwise_per_cycle)
                self._tick()
        left = machine.propagation_delay
        while left > 0 or waiting > 0:
            left -= 1
            waiting = max(0.0, waiting - machine.elementwise_per_cycle)
            self._tick()


def _blocks(own: ScheduleNode, machine: PeMachine) -> list[tuple[int, bool]]:
    """Each block of weights: outputs that it adds to, whether it is the last one of these."""
    cin, cout = own.in_channels // own.groups, own.shape[0] // own.groups
    beside = max(1, min(machine.rows // cin, machine.columns // cout))
    found = []
    for first in range(0, own.groups, beside):
        groups = min(beside, own.groups - first)
        for column in range(0, cout, machine.columns):
            outputs = min(machine.columns, cout - column) * groups
            steps = len(range(0, cin, machine.rows)) * own.window.kernel[0] * own.window.kernel[1]
            found += [(outputs, step == steps - 1) for step in range(steps)]
    return found


def _union(one: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    if one is None or one[0] >= one[1]:
        return other
    if other[0] >= other[1]:
        return one
    return min(one[0], other[0]), max(one[1], other[1])
