"""The paper's order: follow a path, step back where that releases a buffer.

The walk goes from the operation that ran last to one that reads it. It leaves that path

* for an operation anywhere that is ready, is the last reader of a buffer, and makes no more than
  it releases: a free buffer within reach;
* where nothing that reads the last result is ready: back to the newest buffer that is still alive
  and has a ready reader.

Among several readers the one that leaves the least alive goes first, so that a consumer whose
other inputs are there (an add, a concat) is completed before another branch begins. The digest of
the paper gives the idea and not the code; the rules above are our reading of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph


def backtracking(graph: ScheduleGraph) -> tuple[int, ...]:
    walk = _Walk(graph)
    while len(walk.order) < len(graph):
        walk.run(walk.releasing() or walk.onwards() or walk.start())
    return tuple(walk.order)


class _Walk:
    def __init__(self, graph: ScheduleGraph) -> None:
        self._graph = graph
        self._missing = [len(sources) for sources in graph.preds]
        self._unread = [len(readers) for readers in graph.succs]
        # As dictionaries: sets that keep their order.
        self._ready = {n: None for n in range(len(graph)) if not self._missing[n]}
        self._alive: dict[int, None] = {}
        self.order: list[int] = []

    def run(self, chosen: tuple[int, ...]) -> None:
        (node,) = chosen
        del self._ready[node]
        self.order.append(node)
        self._alive[node] = None
        for source in self._graph.preds[node]:
            self._unread[source] -= 1
            if not self._unread[source]:
                del self._alive[source]
        for reader in self._graph.succs[node]:
            self._missing[reader] -= 1
            if not self._missing[reader]:
                self._ready[reader] = None

    def releasing(self) -> tuple[int, ...]:
        """A ready node that releases at least what it makes."""
        able = (node for node in self._ready if self._releases(node) and self._growth(node) <= 0)
        return self._least(able)

    def onwards(self) -> tuple[int, ...]:
        """A ready reader of the newest live buffer that has one."""
        for made in reversed(self._alive):
            found = self._least(node for node in self._graph.succs[made] if node in self._ready)
            if found:
                return found
        return ()

    def start(self) -> tuple[int, ...]:
        """A node that reads nothing, in file order."""
        return (next(iter(self._ready)),)

    def _least(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """The node that leaves the least alive, if there is any."""
        found = min(nodes, key=self._growth, default=None)
        return () if found is None else (found,)

    def _releases(self, node: int) -> list[int]:
        outputs = self._graph.is_output
        return [n for n in self._graph.preds[node] if self._unread[n] == 1 and not outputs[n]]

    def _growth(self, node: int) -> int:
        sizes = self._graph.nodes
        return sizes[node].out_bytes - sum(sizes[n].out_bytes for n in self._releases(node))
