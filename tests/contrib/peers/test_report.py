"""The comparison's cells."""

from __future__ import annotations

import pytest

from tvm_neocpu.commands import bench
from tvm_neocpu.contrib.peers.report import milliseconds


def test_small_networks_are_shown_in_microseconds() -> None:
    assert milliseconds(0.01781) == "17.81"
    assert milliseconds(0.00101) == "1.01"
    assert milliseconds(85.4e-6) == "85 us"


def test_bench_names_its_other_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    shown = capsys.readouterr().out
    assert "bench kernels --help" in shown and "bench plan --help" in shown
