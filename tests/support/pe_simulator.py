"""An accelerator simulated cycle by cycle: slow, and written apart from the profiler's formulas.

Three engines work at once: a DMA engine with one queue, an array that holds one block of weights,
a vector unit. Bands, clipped at the image's borders, run one after the other; the next band's
inputs are requested when a band begins, weights as far ahead as the buffer for them allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph, ScheduleNode
from tvm_neocpu.scheduling.profilers.machine import PeMachine


@dataclass
class Request:
    size: float
    issued: int
    done: bool = False


@dataclass
class Dma:
    """One request after the other; data comes ``latency`` cycles behind its request."""

    machine: PeMachine
    queue: deque[Request] = field(default_factory=deque)
    left: float = 0.0

    def ask(self, size: float, now: int) -> Request:
        request = Request(size, now)
        self.queue.append(request)
        return request

    def tick(self, now: int) -> None:
        budget = self.machine.dram_bytes_per_cycle
        while self.queue and budget > 0 and now >= self.queue[0].issued + self.machine.latency:
            moved = min(budget, self.queue[0].size)
            self.queue[0].size -= moved
            budget -= moved
            if self.queue[0].size <= 0:
                self.queue.popleft().done = True


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
        self.ahead = (
            2 * machine.block_bytes + machine.latency * machine.dram_bytes_per_cycle
            if not keeps_weights
            else float("inf")
        )

    def run(self) -> int:
        """Cycles from the first request to the last byte."""
        coming = self._ask_inputs(self.bands[0])
        for at, band in enumerate(self.bands):
            if at == 0 or not self.keeps:
                self._plan_weights()
            self._wait(coming)
            if at + 1 < len(self.bands):
                coming = self._ask_inputs(self.bands[at + 1])
            handled: set[int] = set()
            for node in self.group:
                if node not in handled:
                    handled |= self._layer(node, band, loads=at == 0 or not self.keeps)
            for node in self.group:
                if self._leaves(node):
                    first, last = self._part(node, at)
                    row_bytes = self.graph.nodes[node].out_bytes / self.graph.nodes[node].rows
                    self.dma.ask((last - first) * row_bytes, self.now - self.machine.latency)
        while self.dma.queue:
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
                asked.append(self.dma.ask(size, self.now))
        return asked

    def _plan_weights(self) -> None:
        for node in self.group:
            own = self.graph.nodes[node]
            if own.kind is OpKind.CONV:
                count = len(list(_blocks(own, self.machine)))
                self.unasked.extend([own.weight_bytes / count] * count)

    def _request_weights(self) -> None:
        held = sum(request.size for request in self.weights)
        while self.unasked and held + self.unasked[0] <= self.ahead:
            held += self.unasked[0]
            self.weights.append(self.dma.ask(self.unasked.popleft(), self.now))

    def _layer(self, node: int, band: dict[int, tuple[int, int]], loads: bool) -> set[int]:
        """Run a layer and what follows it in the vector unit; the nodes that ran."""
        own = self.graph.nodes[node]
        first, last = band.get(node, (0, 0))
        elements = (last - first) * own.out_bytes / own.rows / self.machine.element_bytes
        if own.kind is not OpKind.CONV:
            self._vector(own, node, elements, (last - first) / own.rows)
            return {node}
        followers = self._followers(node)
        self._convolve(own, int((last - first) * own.shape[2]), loads, len(followers))
        return {node, *followers}

    def _followers(self, node: int) -> list[int]:
        found: list[int] = []
        last = node
        while True:
            readers = [r for r in self.graph.succs[last] if r in self.group]
            if len(readers) != 1 or self.graph.nodes[readers[0]].kind is not OpKind.ELEMENTWISE:
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
        in_array = 0.0  # cycles until the next block is in the array
        waiting = 0.0  # results that the vector unit has to take, once for each follower
        blocks = list(_blocks(own, machine))
        in_array = machine.block_cycles
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
