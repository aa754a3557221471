"""The benchmark of what a candidate costs: every second counts once, on a tiny network."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from tvm_neocpu.folded_network import open_onnx

FOLDER = Path(__file__).parents[2] / "benchmarks" / "layers"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    import candidate_rate

    return candidate_rate


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_phase_inside_another_counts_for_itself(bench: ModuleType) -> None:
    clock = bench.Clock()
    inner = clocked = clock.clocked("inner", lambda: busy(0.02))

    def both() -> None:
        inner()
        busy(0.03)
        inner()

    thread = threading.Thread(target=clock.clocked("outer", both))
    thread.start()
    thread.join()
    clocked()
    assert clock.seconds["inner"] == pytest.approx(0.06, abs=0.015)
    assert clock.seconds["outer"] == pytest.approx(0.03, abs=0.015)


def test_each_stand_in_has_new_candidates_and_all_phases_are_seen(
    bench: ModuleType, tiny_cnn: onnx.ModelProto
) -> None:
    content = tiny_cnn.SerializeToString()
    network = open_onnx(content, {"data": (1, 8, 6, 6)}, "llvm -num-cores=1")
    found = bench.measure(network, 2)
    assert found["candidates"] >= 2
    assert found["kernels"] > 0
    assert found["shares"].keys() == {
        bench.SCHEDULES,
        bench.PASSES,
        bench.PROGRAM,
        bench.TIR,
        bench.LLVM_IR,
        bench.MACHINE_CODE,
    }
    assert all(share > 0 for share in found["shares"].values())
    assert sum(found["shares"].values()) == pytest.approx(1.0, abs=0.01)
