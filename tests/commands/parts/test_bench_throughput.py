"""bench --hint throughput: every engine has a rate, and the report has them all."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tvm_neocpu.commands import bench
from tvm_neocpu.commands.parts import bench_throughput
from tvm_neocpu.contrib.peers import throughput


def test_every_engine_has_a_rate(
    tiny_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throughput, "SECONDS", 0.05)
    monkeypatch.setattr(throughput, "PAUSE_SECONDS", 0.0)
    words = [tiny_file, "--hint", "throughput", "--runs", "1", "--json", "out.json"]
    assert bench.main(words) == 0
    assert "throughput on" in capsys.readouterr().out
    (network,) = json.loads(Path("out.json").read_text())["networks"]
    assert set(network["calls_per_second"]) <= set(throughput.ENGINES)
    assert all(rate > 0 for rate in network["calls_per_second"].values())


def test_a_peer_that_is_not_installed_is_named(
    tiny_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_throughput, "find_spec", lambda name: name == "tvm_neocpu" or None)
    monkeypatch.setattr(throughput, "SECONDS", 0.05)
    assert bench.main([tiny_file, "--hint", "throughput", "--runs", "1"]) == 0
    assert "warning: OpenVINO is not installed" in capsys.readouterr().err


def test_callers_are_counted() -> None:
    rate = throughput.calls_per_second(lambda: time.sleep(0.01), callers=4, seconds=0.3)
    assert 150 < rate <= 400
