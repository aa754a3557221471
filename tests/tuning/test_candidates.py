"""What the global search chooses among, when little, much or nothing but failures was measured."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.candidate import Candidate, layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.cpu import AVX512, Cpu
from tvm_neocpu.core.record import Record
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import best_per_layout, predict_seconds, ranked
from tvm_neocpu.tuning.candidates import UNMEASURED_PENALTY, candidates_of

CPU = Cpu("testcpu", AVX512, 2)
CONV = ConvWorkload(1, 32, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1))
GRAPH = ConvGraph((GraphNode("a", NodeKind.CONV, "a", CONV.out_shape, CONV),), ())
PREDICTED = best_per_layout(CONV, CPU)
WORST = [candidate.config for candidate in ranked(CONV, CPU)[-6:]]


def took(config: Config, ratio: float) -> Record:
    """A measurement that took so many times what the model says."""
    return Record(CONV, config, (ratio * predict_seconds(CONV, config, CPU),), "testcpu", 2)


def failed(config: Config) -> Record:
    return Record(CONV, config, (), "testcpu", 2, error_no=4)


def schemes(*records: Record) -> tuple[Candidate, ...]:
    return candidates_of(GRAPH, CPU, {CONV: records})[CONV]


def test_what_nobody_measured_is_scaled_by_the_median_ratio() -> None:
    """The fastest record's own ratio is the lucky one: it made it the fastest."""
    best = PREDICTED[0].config
    records = [took(best, 0.6), *(took(config, 1.0) for config in WORST)]
    found = {scheme.config: scheme.seconds for scheme in schemes(*records)}
    known = {layouts_of(record.config) for record in records}
    guessed = [p for p in PREDICTED if layouts_of(p.config) not in known and p.config in found]
    assert guessed
    floor = records[0].seconds * UNMEASURED_PENALTY
    for candidate in guessed:
        assert found[candidate.config] == pytest.approx(max(floor, candidate.seconds))
        assert found[candidate.config] > 1.1 * candidate.seconds * 0.6


def test_a_measured_scheme_beats_one_that_the_model_prefers() -> None:
    measured = PREDICTED[-1].config
    assert schemes(took(measured, 1.0))[0].config == measured


def test_the_fastest_record_of_a_layout_stands_for_it() -> None:
    same = [c.config for c in ranked(CONV, CPU) if layouts_of(c.config) == layouts_of(WORST[0])]
    slow, fast = took(same[0], 3.0), took(same[1], 1.0)
    found = [s for s in schemes(slow, fast) if layouts_of(s.config) == layouts_of(WORST[0])]
    assert found == [Candidate(same[1], fast.seconds)]


def test_what_failed_is_replaced_by_the_next_best_of_its_layout() -> None:
    best = PREDICTED[0].config
    found = schemes(failed(best))
    assert best not in {scheme.config for scheme in found}
    assert layouts_of(best) in {layouts_of(scheme.config) for scheme in found}


def test_where_everything_failed_there_is_still_something_to_build() -> None:
    found = schemes(*(failed(candidate.config) for candidate in ranked(CONV, CPU)))
    assert found[0] == PREDICTED[0]


def test_without_records_the_model_speaks() -> None:
    assert schemes()[0] == PREDICTED[0]
