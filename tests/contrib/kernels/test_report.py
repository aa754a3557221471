"""Kernel times as a table and as JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.kernels.measure import KernelTime
from tvm_neocpu.contrib.kernels.report import as_json, show, totals
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
CEILINGS = Ceilings(peak=200.0, bandwidth=20.0)


def timed(config: Config, seconds: float, rank: int) -> KernelTime:
    return KernelTime(CONV, config, seconds, 200.0, 2e-3, rank, occurrences=3)


CHOSEN = timed(ConvConfig(16, 32, 14), 1.5e-3, rank=0)
FASTER = timed(WinogradConfig(16, 16, 4, 7), 1e-3, rank=5)
GROUPS = [[CHOSEN, FASTER], []]


def test_the_models_choices_add_up_as_often_as_they_occur() -> None:
    assert totals(GROUPS) == (pytest.approx(4.5e-3), 3.0 * CONV.flops)


def test_the_json_holds_every_config_in_full() -> None:
    report = as_json(GROUPS, CEILINGS)
    json.dumps(report)
    first, second = report["kernels"]
    assert report["untuned_seconds"] == pytest.approx(4.5e-3)
    assert (first["untuned_choice"], second["untuned_choice"]) == (True, False)
    assert second["template"] == "conv2d_NCHWc_winograd"
    assert second["config"]["tile"] == 4
    assert second["rank"] == 5
    assert first["roofline_gflops"] == 200.0
    assert first["share_of_peak"] == pytest.approx(CHOSEN.gflops / 200.0)


def test_the_table_marks_the_models_choice() -> None:
    console = Console(width=220, record=True, file=io.StringIO())
    show(GROUPS, CEILINGS, console)
    rows = [line for line in console.export_text().splitlines() if "conv2d_NCHWc" in line]
    assert ["* conv2d_NCHWc" in row for row in rows] == [True, False]
    assert str(CONV) in rows[0]
    assert str(CONV) not in rows[1]
