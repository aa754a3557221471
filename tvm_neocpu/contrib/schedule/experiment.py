"""The paper's experiment: every partitioner and every order on one network and one machine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tvm_neocpu.core.errors import ScheduleError
from tvm_neocpu.scheduling.graph.live import lifetimes, live_bytes
from tvm_neocpu.scheduling.graph.price import Price, Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph
from tvm_neocpu.scheduling.memory.table import ALLOCATORS
from tvm_neocpu.scheduling.orders.best import best
from tvm_neocpu.scheduling.orders.table import ORDERS
from tvm_neocpu.scheduling.partition.partition import Group, Partition
from tvm_neocpu.scheduling.partition.table import PARTITIONERS
from tvm_neocpu.scheduling.profilers.remembering import Remembering

# The exact partition of more nodes takes minutes.
EXACT_NODES = 18
# "best" proves its order in nearly all groups; "exact" would not end in the others.
EXPERIMENT_ORDERS = tuple(name for name in ORDERS if name != "exact")
# What "best" may look at for each node of a group (`IdealSearch`): milliseconds.
LOOKS_A_NODE = 2_000
BASELINE = ("no-fusion", "file")


@dataclass(frozen=True)
class Row:
    """One partition with the nodes of each group in one order; times in cycles, sizes in bytes.

    ``seconds``: what the partition took to find.
    """

    partitioner: str
    order: str
    groups: tuple[Group, ...]
    prices: tuple[Price, ...]
    evaluations: int
    seconds: float

    @property
    def cycles(self) -> float:
        return sum(price.cycles for price in self.prices)

    @property
    def dram_bytes(self) -> float:
        return sum(price.dram_bytes for price in self.prices)

    @property
    def peak_bytes(self) -> float:
        return max((price.buffer_bytes for price in self.prices), default=0.0)

    @property
    def cost(self) -> float:
        return sum(price.cost for price in self.prices)


@dataclass(frozen=True)
class Memory:
    """The whole network in one order, nothing fused: bytes alive by step, bytes by allocator."""

    order: str
    alive: tuple[int, ...]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Experiment:
    """``macs_per_cycle``: the machine's peak. ``boundaries``: operations that nobody knows.

    ``in_pieces``: operations of which no row fits the buffer. ``seconds``: CPU time of everything.
    """

    network: str
    machine: str
    graph: ScheduleGraph
    macs_per_cycle: float
    capacity: float
    rows: tuple[Row, ...]
    memory: tuple[Memory, ...]
    boundaries: Mapping[str, int]
    in_pieces: Mapping[str, int]
    seconds: float

    @property
    def baseline(self) -> Row:
        return self.row(*BASELINE)

    @property
    def best(self) -> Row:
        return min(self.rows, key=lambda row: row.cost)

    def row(self, partitioner: str, order: str) -> Row:
        return next(r for r in self.rows if (r.partitioner, r.order) == (partitioner, order))

    def utilisation(self, row: Row) -> float:
        """The share of the peak that the multiply-adds of the network reach."""
        macs = sum(node.macs for node in self.graph.nodes)
        return macs / (row.cycles * self.macs_per_cycle) if row.cycles else 0.0


def run_experiment(
    network: str,
    machine: str,
    graph: ScheduleGraph,
    profiler: Profiler,
    macs_per_cycle: float,
    capacity: float,
) -> Experiment:
    """All partitions in all orders. Raises ScheduleError where an operation fits no buffer."""
    begin = time.process_time()
    check_fits(graph, profiler, machine)
    profiler = Remembering(profiler)
    orders = _GroupOrders(graph)
    rows: list[Row] = []
    for name, partitioner in PARTITIONERS.items():
        if name == "exact" and len(graph) > EXACT_NODES:
            continue
        started = time.process_time()
        partition = partitioner(graph, profiler)
        took = time.process_time() - started
        rows += [
            _row(orders, profiler, name, order, partition, took) for order in EXPERIMENT_ORDERS
        ]
    memory = _memories(graph)
    unknown = [at for at, node in enumerate(graph.nodes) if node.kind is OpKind.BOUNDARY]
    return Experiment(
        network,
        machine,
        graph,
        macs_per_cycle,
        capacity,
        tuple(rows),
        memory,
        _kinds(graph, unknown),
        _kinds(graph, (at for at in range(len(graph)) if profiler.price((at,)).in_pieces)),
        time.process_time() - begin,
    )


def check_fits(graph: ScheduleGraph, profiler: Profiler, machine: str) -> None:
    """Raises ScheduleError, which names the first operation that fits the buffer at no tile."""
    for place, node in enumerate(graph.nodes):
        price = profiler.price((place,))
        if not price.is_possible:
            raise ScheduleError(
                f"{node.label} ({node.id}) fits the buffer of {machine} at no tile; {price.why_not}"
            )


def _row(
    orders: _GroupOrders,
    profiler: Profiler,
    name: str,
    order: str,
    partition: Partition,
    seconds: float,
) -> Row:
    groups = tuple(orders.ordered(group, order) for group in partition.groups)
    prices = [profiler.price(group) for group in groups]
    for at, price in enumerate(prices):
        if not price.is_possible:
            # Not in this order: the partition was priced in the order of its line.
            groups = (*groups[:at], partition.groups[at], *groups[at + 1 :])
            prices[at] = profiler.price(groups[at])
    return Row(name, order, groups, tuple(prices), partition.evaluations, seconds)


def _kinds(graph: ScheduleGraph, nodes: Iterable[int]) -> dict[str, int]:
    """How many of the nodes there are of each operation."""
    return dict(Counter(graph.nodes[at].label.split()[0] for at in nodes))


class _GroupOrders:
    """Groups with their nodes in every order; partitions have many groups in common."""

    def __init__(self, graph: ScheduleGraph) -> None:
        self._graph = graph
        self._known: dict[tuple[str, Group], Group] = {}

    def ordered(self, group: Group, order: str) -> Group:
        """A group's nodes in an order of the group alone; what leaves it is alive to its end."""
        if len(group) == 1:
            return group
        members = tuple(sorted(group))
        if (order, members) not in self._known:
            alone = self._alone(members)
            looks = LOOKS_A_NODE * len(members)
            found = best(alone, looks) if order == "best" else ORDERS[order](alone)
            self._known[order, members] = tuple(members[at] for at in found)
        return self._known[order, members]

    def _alone(self, members: Group) -> ScheduleGraph:
        graph, inside = self._graph, set(members)
        edges = [
            (graph.nodes[source].id, graph.nodes[node].id)
            for node in members
            for source in graph.preds[node]
            if source in inside
        ]
        leaving = frozenset(
            graph.nodes[node].id
            for node in members
            if graph.is_output[node] or not inside.issuperset(graph.succs[node])
        )
        return ScheduleGraph(tuple(graph.nodes[node] for node in members), tuple(edges), leaving)


def _memories(graph: ScheduleGraph) -> tuple[Memory, ...]:
    """One for each order; orders that are the same are placed once."""
    placed: dict[tuple[int, ...], Memory] = {}
    found: list[Memory] = []
    for name in EXPERIMENT_ORDERS:
        order = ORDERS[name](graph)
        if order not in placed:
            placed[order] = _memory(graph, name, order)
        found.append(replace(placed[order], order=name))
    return tuple(found)


def _memory(graph: ScheduleGraph, name: str, order: tuple[int, ...]) -> Memory:
    lives = lifetimes(graph, order)
    sizes = {each: allocate(lives).size for each, allocate in ALLOCATORS.items()}
    return Memory(name, live_bytes(graph, order), sizes)
