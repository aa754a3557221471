"""Prices of sweeps: measured, scaled from measured ones of the kind, and read through for free."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind, Sweep, SweepKind
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.log import LogContents
from tvm_neocpu.tuning.sweep_costs import SweepCosts

CPU = Cpu("haswell", AVX2, cores=1)
SHAPE, HALF = (1, 64, 28, 28), (1, 32, 28, 28)
POOL = Sweep(SweepKind.POOL, (SHAPE,), SHAPE, 9)
CONCAT = Sweep(SweepKind.MOVE, (HALF, HALF), SHAPE)
BLOCKS = Layout(16)


def node(sweeps: tuple[Sweep, ...] = (), read: tuple[Sweep, ...] = ()) -> GraphNode:
    return GraphNode("a", NodeKind.CONV, "conv", SHAPE, sweeps=sweeps, read_sweeps=read)


def test_every_sweep_of_a_node_is_paid_in_the_layout_that_it_writes() -> None:
    costs = SweepCosts(CPU)
    one, both = node((POOL,)), node((POOL, CONCAT))
    assert costs(node(), BLOCKS, NCHW, None) == 0
    assert costs(one, BLOCKS, NCHW, None) == costs.price(POOL, NCHW) > costs.price(POOL, BLOCKS)
    assert costs(both, NCHW, BLOCKS, None) == pytest.approx(
        costs.price(POOL, BLOCKS) + costs.price(CONCAT, BLOCKS)
    )


def test_a_template_that_computes_as_it_reads_pays_nothing_more() -> None:
    costs, reader = SweepCosts(CPU), node(read=(CONCAT,))
    assert costs(reader, BLOCKS, NCHW, ConvConfig(16, 16, 6)) == 0
    materialised = costs(reader, BLOCKS, NCHW, DeformConfig(16, 16, 6))
    assert materialised == costs.price(CONCAT, BLOCKS) > 0


def test_what_was_measured_counts_and_scales_its_kind() -> None:
    plain = SweepCosts(CPU)
    known = SweepWorkload.of(POOL, BLOCKS)
    costs = SweepCosts(CPU, {known: 3 * plain.price(POOL, BLOCKS)})
    assert costs.price(POOL, BLOCKS) == 3 * plain.price(POOL, BLOCKS)
    other = Sweep(SweepKind.POOL, (HALF,), HALF, 9)
    assert costs.price(other, BLOCKS) == pytest.approx(3 * plain.price(other, BLOCKS))
    assert costs.price(other, NCHW) == plain.price(other, NCHW)
    assert costs.price(CONCAT, BLOCKS) == plain.price(CONCAT, BLOCKS)


def test_a_log_has_the_graphs_sweeps_in_any_layout() -> None:
    foreign = Sweep(SweepKind.POOL, ((1, 8, 5, 5),), (1, 8, 5, 5), 9)
    wanted = {SweepWorkload.of(POOL, layout) for layout in (NCHW, BLOCKS)}
    stamp = record_stamp(SweepConfig())
    records = [
        Record(sweep, SweepConfig(), (2e-5,), CPU.name, 1, stamp=stamp)
        for sweep in (*wanted, SweepWorkload.of(foreign, NCHW))
    ]
    history = History(CPU.name, 1, (LogContents(tuple(records)),))
    found = history.sweeps(ConvGraph((node((POOL,)),), ()))
    assert set(found) == wanted
    assert SweepCosts.from_records(CPU, found).price(POOL, BLOCKS) == 2e-5
