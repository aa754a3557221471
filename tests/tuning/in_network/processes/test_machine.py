"""One process of the tuner: what of its start another process need not repeat."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx
from tvm_neocpu.tuning.in_network.processes.machine import NetworkMachine


@pytest.fixture
def network(tiny_cnn: onnx.ModelProto) -> FoldedNetwork:
    return open_onnx(tiny_cnn.SerializeToString(), {"data": (1, 8, 6, 6)}, "llvm -num-cores=1")


def kept_seconds(network: FoldedNetwork) -> tuple[float, float]:
    """Of a build, and of the same build in a machine that starts after it."""
    plan = choose_plan(network.graph, network.cpu)
    found = []
    for _ in range(2):
        machine = NetworkMachine(lambda: network)
        assert machine.kept_seconds("incumbent") == 0
        machine.build("incumbent", plan)
        found.append(machine.kept_seconds("incumbent"))
    return found[0], found[1]


def test_kernels_on_disk_are_not_compiled_again(network: FoldedNetwork, cache_home: Path) -> None:
    first, second = kept_seconds(network)
    assert 0 < second < first


def test_without_a_cache_all_is_repeated(network: FoldedNetwork) -> None:
    assert kept_seconds(network) == (0, 0)
