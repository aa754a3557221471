"""The benchmark that times every candidate: its rounds, and a run on a tiny network."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.pipeline import choose_plan
from tvm_neocpu.tuning.database.log import load_log
from tvm_neocpu.tuning.tasks import tasks_of

FOLDER = Path(__file__).parents[2] / "benchmarks"
SHAPES = {"data": (1, 8, 6, 6)}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    import exhaustive_layers

    return exhaustive_layers


def test_every_round_has_one_config_of_each_layer_that_is_left(bench: ModuleType) -> None:
    assert bench.rounds_of({"a": [1, 2, 3], "b": [4]}) == [{"a": 1, "b": 4}, {"a": 2}, {"a": 3}]
    assert bench.rounds_of({"a": []}) == []


def test_a_large_space_is_measured_where_it_is_favoured(bench: ModuleType) -> None:
    task = argparse.Namespace(space=(1, 2, 3), favoured=(2,))
    assert bench.wanted(task, 3) == (1, 2, 3)
    assert bench.wanted(task, 2) == (2,)


def test_a_round_replaces_the_configs_of_its_layers_alone(
    bench: ModuleType, tiny_cnn: onnx.ModelProto
) -> None:
    network = open_onnx(tiny_cnn.SerializeToString(), SHAPES, "llvm -num-cores=1")
    incumbent = choose_plan(network.graph, network.cpu)
    task, other = tasks_of(network.graph, network.cpu)[:2]
    found = bench.planned(network, incumbent, {task.workload: task.space[-1]})
    configs = {node.workload: found.configs[node.id] for node in network.graph.convs}
    assert configs[task.workload] == task.space[-1]
    (mine,) = (n.id for n in network.graph.convs if n.workload == other.workload)
    assert found.configs[mine] == incumbent.configs[mine]


@pytest.mark.slow
def test_it_writes_what_it_measures_and_goes_on(
    bench: ModuleType, tiny_cnn: onnx.ModelProto, tmp_path: Path, monkeypatch
) -> None:
    model, log = tmp_path / "tiny.onnx", tmp_path / "tiny.log"
    onnx.save(tiny_cnn, model)
    network = open_onnx(tiny_cnn.SerializeToString(), SHAPES, "llvm -num-cores=1")
    layers = [str(task.workload) for task in tasks_of(network.graph, network.cpu)]
    options = argparse.Namespace(model=str(model), layers=layers, log=log, most=9, threads=1)
    for count in (2, 3):
        monkeypatch.setattr(bench, "wanted", lambda task, _, n=count: task.space[:n])
        bench.start(options, bench.contextlib.nullcontext)
        records = load_log(log).records
        assert len(records) == count * len(layers)
        assert len({(r.workload, r.config) for r in records}) == len(records)
        assert all(record.ok and record.threads == 1 for record in records)


def test_layers_that_may_be_asked_for_are_listed(
    bench: ModuleType, tiny_cnn: onnx.ModelProto
) -> None:
    network = open_onnx(tiny_cnn.SerializeToString(), SHAPES, "llvm -num-cores=1")
    names = {str(task.workload) for task in tasks_of(network.graph, network.cpu)}
    rows = bench.listed(network, most=9)
    assert rows
    assert {row.split(": ")[0] for row in rows} <= names
    assert all("candidates" in row and row.endswith("min") for row in rows)
