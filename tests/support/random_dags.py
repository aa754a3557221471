"""Random schedule graphs: layers of a network whose wiring is drawn."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tvm_neocpu.scheduling.graph.schedule_graph import (
    OpKind,
    ScheduleGraph,
    ScheduleNode,
    Window,
)


def random_dag(count: int, seed: int, near: int = 6) -> ScheduleGraph:
    """Maps of 16 to 128 KiB at 32x32, smaller below; a node reads one or two of ``near``."""
    rng = random.Random(seed)
    nodes = [_node(rng, 0, OpKind.INPUT, 32, 32)]
    edges: list[tuple[str, str]] = []
    for at in range(1, count):
        earlier = nodes[max(0, at - near) :]
        sources = rng.sample(earlier, min(len(earlier), rng.choice((1, 1, 2))))
        rows = min(source.rows for source in sources)
        kind = OpKind.ELEMENTWISE if len(sources) > 1 else rng.choice(_KINDS)
        stride = 2 if kind is OpKind.CONV and rows > 8 and rng.random() < 0.15 else 1
        channels = sources[0].shape[0]
        outputs = rng.choice((16, 32, 64, 128)) if kind is OpKind.CONV else channels
        nodes.append(_node(rng, at, kind, outputs, rows // stride, channels, stride))
        edges += [(source.id, str(at)) for source in sources]
    return ScheduleGraph(tuple(nodes), tuple(edges))


def dags(most: int) -> st.SearchStrategy[ScheduleGraph]:
    """Graphs of up to ``most`` nodes."""
    wiring = st.tuples(st.integers(1, most), st.integers(0, 10**6), st.integers(1, most))
    return wiring.map(lambda drawn: random_dag(*drawn))


_KINDS = (OpKind.CONV, OpKind.CONV, OpKind.CONV, OpKind.POOL, OpKind.ELEMENTWISE)


def _node(
    rng: random.Random,
    at: int,
    kind: OpKind,
    channels: int,
    rows: int,
    in_channels: int = 1,
    stride: int = 1,
) -> ScheduleNode:
    kernel = {OpKind.CONV: rng.choice((1, 3, 3, 5)), OpKind.POOL: 3}.get(kind, 1)
    weights = channels * in_channels * kernel**2 if kind is OpKind.CONV else 0
    return ScheduleNode(
        str(at),
        f"{kind.value} {channels}x{rows}x{rows}",
        kind,
        channels * rows * rows,
        macs=weights * rows * rows,
        weight_bytes=weights,
        work_bytes=rng.choice((0, 0, 0, 512)),
        shape=(channels, rows, rows),
        in_channels=in_channels,
        window=Window((kernel,) * 2, (stride,) * 2, (kernel // 2,) * 2),
    )
