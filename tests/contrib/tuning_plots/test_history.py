"""Curves and points of scripted records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.tuning_plots.chart import Axis
from tvm_neocpu.contrib.tuning_plots.history import history_of, rank_correlation
from tvm_neocpu.contrib.tuning_plots.page import render, render_svg
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))


def record(moment: float, *costs: float, workload: ConvWorkload = CONV) -> Record:
    config = ConvConfig(16, 16, 7)
    failed = 0 if costs else 4
    return Record(workload, config, costs, "znver3", 2, error_no=failed, timestamp=moment)


def test_the_best_so_far_falls_and_breaks_do_not_count():
    records = [record(10, 5e-3), record(12, 7e-3), record(13, 3e-3), record(5000, 2e-3), record(1)]
    history = history_of(records, (), lambda *_: 4e-3)
    (curve,) = history.workloads
    assert [round(x, 6) for point in curve.points for x in point] == [0, 5, 3, 3, 3, 2]
    assert curve.gain == pytest.approx(2.5) and curve.records == 4
    assert history.failed == 1
    (points,) = history.scatter.values()
    assert [round(measured, 6) for _, measured in points] == [5, 7, 3, 2]


def test_a_config_that_the_model_does_not_know_is_no_point():
    assert history_of([record(1, 1e-3)], (), lambda *_: None).scatter == {}


def test_rank_correlation():
    assert rank_correlation([(1, 10), (2, 20), (3, 30)]) == pytest.approx(1)
    assert rank_correlation([(1, 30), (2, 20), (3, 10)]) == pytest.approx(-1)
    assert rank_correlation([(1, 1), (1, 2), (2, 3), (2, 4)]) == pytest.approx(0.894, abs=1e-3)
    assert rank_correlation([(1, 1), (2, 2)]) is None
    assert rank_correlation([(1, 1), (1, 2), (1, 3)]) is None


def test_axes_hold_their_values():
    for log in (False, True):
        axis = Axis.of("ms", [0.3, 40.0], log)
        assert 0 <= axis.share(0.3) < axis.share(40.0) <= 1
        assert 3 <= len(axis.ticks()) <= 20
    assert Axis.of("s", [0.0]).share(0.0) == 0


def test_the_page_is_self_contained_and_escaped():
    history = history_of([record(1, 2e-3), record(2, 1e-3)], (), lambda *_: 1e-3)
    history = replace(history, networks=(("<script>", 1.2, 1.1, 1.3),))
    page = render("a & b", history)
    assert page.count("<svg") == 2 and "a &amp; b" in page and "&lt;script&gt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert render_svg(history).count("<svg") == 3
