"""Schemes that read the packed weights of another plan."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import Cpu, isa_of
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.tuning.shared_weights import sharing_schemes

CPU = Cpu("test", isa_of(frozenset({"avx2", "fma"})), 1)
CONV = ConvWorkload(1, 32, 14, 14, 32, (3, 3), padding=(1, 1, 1, 1))


def graph(conv: ConvWorkload) -> ConvGraph:
    return ConvGraph((GraphNode("c", NodeKind.CONV, "conv", conv.out_shape, conv),), ())


def test_every_packing_has_a_counterpart_at_another_batch() -> None:
    batch = replace(CONV, batch=4)
    free = {batch: best_per_layout(batch, CPU)}
    for candidate in best_per_layout(CONV, CPU):
        config = candidate.config
        model = (graph(CONV), Plan("g", {"c": config}))
        schemes = sharing_schemes(graph(batch), model, free, CPU)
        assert schemes is not None
        (found,) = schemes[batch]
        shape = implementation_of(config).packed_shape
        assert shape is not None
        assert shape(batch, found.config) == shape(CONV, config)
        assert layouts_of(found.config) == layouts_of(config)


def test_other_weights_share_nothing() -> None:
    other = replace(CONV, out_channels=64)
    config = best_per_layout(CONV, CPU)[0].config
    model = (graph(CONV), Plan("g", {"c": config}))
    free = {other: best_per_layout(other, CPU)}
    assert sharing_schemes(graph(other), model, free, CPU) is None
    assert sharing_schemes(ConvGraph((), ()), model, free, CPU) is None
