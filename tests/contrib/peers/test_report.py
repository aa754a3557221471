"""The comparison's cells."""

from __future__ import annotations

import io
from math import inf as INF

import pytest
from rich.console import Console

from tvm_neocpu.commands import bench
from tvm_neocpu.contrib.peers.compare import Timing
from tvm_neocpu.contrib.peers.report import Comparison, as_json, milliseconds, show
from tvm_neocpu.contrib.peers.table import OURS


def test_small_networks_are_shown_in_microseconds() -> None:
    assert milliseconds(0.01781) == "17.81"
    assert milliseconds(0.00101) == "1.01"
    assert milliseconds(85.4e-6) == "85 us"


def test_bench_names_its_other_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    shown = capsys.readouterr().out
    assert "bench kernels --help" in shown and "bench plan --help" in shown


def test_a_peer_that_saturates_counts_and_is_named() -> None:
    timings = {
        OURS: Timing((0.002,), 0.01, 0.02),
        "ONNX Runtime": Timing((0.004,), 0.05, INF),
        "OpenVINO": Timing((0.003,), 0.09, 0.02, saturated=0.1),
        "MNN": Timing((0.001,), 0.5, 0.02, saturated=0.1),
    }
    found = Comparison("net", timings, reference="ONNX Runtime")
    assert found.best_peer == "OpenVINO" and found.speedup == pytest.approx(1.5)
    text = io.StringIO()
    show([found], 1, Console(file=text, width=150))
    assert "3.00 (saturates)" in text.getvalue() and "wrong" in text.getvalue()
    engines = as_json([found], 1, "znver3")["networks"][0]["engines"]
    assert [engines[name]["right"] for name in timings] == [True, True, False, False]
    assert [name for name, row in engines.items() if row["saturates"]] == ["OpenVINO"]
