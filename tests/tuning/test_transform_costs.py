"""Prices of layout transforms: measured, scaled from measured, free; and which are worth timing."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.candidate import Candidate
from tvm_neocpu.core.config import ConvConfig, TransformConfig
from tvm_neocpu.core.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.core.cpu import AVX512, Cpu
from tvm_neocpu.core.layout import NCHW, Layout
from tvm_neocpu.core.record import Record
from tvm_neocpu.core.workload import ConvWorkload, TransformWorkload
from tvm_neocpu.tuning.transform_costs import TransformCosts, transforms_of

CPU = Cpu("testcpu", AVX512, 2)
SHAPE = (1, 64, 56, 56)
CONV = ConvWorkload(1, 64, 56, 56, 64, (1, 1))


def measured(move: TransformWorkload, seconds: float) -> TransformCosts:
    record = Record(move, TransformConfig(), (seconds,), CPU.name, 2)
    return TransformCosts.from_records(CPU, {move: [record]})


def test_a_measured_transform_costs_what_was_measured() -> None:
    costs = measured(TransformWorkload(*SHAPE, 16, 32), 1e-3)
    assert costs(SHAPE, Layout(16), Layout(32)) == 1e-3


def test_others_of_its_kind_are_corrected_by_the_same_factor() -> None:
    plain, known = TransformCosts(CPU), measured(TransformWorkload(*SHAPE, 16, 32), 1e-3)
    factor = 1e-3 / plain(SHAPE, Layout(16), Layout(32))
    smaller = (1, 64, 28, 28)
    corrected = known(smaller, Layout(32), Layout(16))
    assert corrected == pytest.approx(factor * plain(smaller, Layout(32), Layout(16)))
    assert known(SHAPE, NCHW, Layout(16)) == plain(SHAPE, NCHW, Layout(16))


def test_a_transform_that_moves_nothing_is_free() -> None:
    costs = TransformCosts(CPU)
    assert costs(SHAPE, NCHW, Layout(1)) == 0
    assert costs((1, 64, 1, 1), Layout(16), Layout(32)) == 0


def conv(id: str) -> GraphNode:
    return GraphNode(id, NodeKind.CONV, "conv", SHAPE, CONV)


def test_transforms_between_good_schemes_and_around_joins_are_worth_timing() -> None:
    join = GraphNode("j", NodeKind.JOIN, "add", SHAPE, join_channels=(64,))
    nodes = (conv("a"), conv("b"), join)
    edges = tuple(
        GraphEdge(src, dst, SHAPE, src) for src, dst in (("a", "b"), ("a", "j"), ("b", "j"))
    )
    schemes = [
        Candidate(ConvConfig(16, 32, 14), 1.0),
        Candidate(ConvConfig(64, 64, 7), 9.0),  # too slow to matter
    ]
    moves = transforms_of(ConvGraph(nodes, edges), {CONV: schemes})
    assert {(move.before, move.after) for move in moves} == {(32, 16)}


def test_a_boundary_wants_plain_nchw() -> None:
    out = GraphNode("out", NodeKind.BOUNDARY, "output", SHAPE)
    graph = ConvGraph((conv("a"), out), (GraphEdge("a", "out", SHAPE, "a"),))
    (move,) = transforms_of(graph, {CONV: [Candidate(ConvConfig(16, 32, 14), 1.0)]})
    assert (move.before, move.after) == (32, 0)
