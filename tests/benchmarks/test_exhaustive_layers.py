"""The benchmark that times every candidate: its rounds, and a run on a tiny network."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.tuning.database.log import load_log
from tvm_neocpu.tuning.tasks import tasks_of

FOLDER = Path(__file__).parents[2] / "benchmarks" / "layers"
SHAPES = {"data": (1, 8, 6, 6)}
EXTENT = {"most": 9, "within": 1.5, "sample": 3}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    import exhaustive_layers

    return exhaustive_layers


def test_every_round_has_one_config_of_each_layer_that_is_left(bench: ModuleType) -> None:
    assert bench.rounds_of({"a": [1, 2, 3], "b": [4]}) == [{"a": 1, "b": 4}, {"a": 2}, {"a": 3}]
    assert bench.rounds_of({"a": []}) == []


def task(count: int) -> argparse.Namespace:
    """Config ``n`` is predicted to take 1 + n / 10; the space is not in that order."""
    return argparse.Namespace(
        space=tuple(reversed(range(count))),
        predicted=lambda config: 1 + config / 10,
        workload="some layer",
    )


def test_a_large_space_is_measured_near_the_best_prediction_and_sampled(bench: ModuleType) -> None:
    extent = bench.Extent(most=20, within=1.5, sample=4)
    assert extent.parts(task(20)) == (tuple(range(20)), ())
    inside, drawn = extent.parts(task(100))
    assert inside == (0, 1, 2, 3, 4, 5)
    assert len(set(drawn)) == 4 and set(drawn) <= set(range(6, 100))
    assert extent.parts(task(100)) == (inside, drawn)  # a later run measures the same ones
    assert extent.wanted(task(100)) == inside + drawn


def test_the_end_says_what_the_sample_shows(bench: ModuleType) -> None:
    extent = bench.Extent(most=20, within=1.5, sample=4)
    _, drawn = extent.parts(task(100))
    taken = {1: 2e-6, 3: 4e-6, drawn[0]: 1e-6, drawn[1]: 8e-6}
    records = [
        argparse.Namespace(workload="some layer", config=config, seconds=seconds, ok=True)
        for config, seconds in taken.items()
    ]
    log = argparse.Namespace(load=lambda: argparse.Namespace(records=records))
    (line,) = bench.shown({"layer": task(100)}, ["layer"], log, extent)
    assert "best of 2 2.0 us; of 2 others 1 are faster, the best takes 0.50 times" in line
    records[2:] = []
    (line,) = bench.shown({"layer": task(100)}, ["layer"], log, extent)
    assert line.endswith("best of 2 2.0 us")


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
    pace = {"processes": 2, "slots": 1, "pairs": 15, "beside": 3, "again": 0, "compile": False}
    options = argparse.Namespace(model=str(model), layers=layers, log=log, threads=1, **EXTENT)
    vars(options).update(pace)
    for count, minutes in ((2, 1e9), (2, 0.0), (3, 1e9)):
        wanted = lambda _, task, n=count: task.space[:n]  # noqa: E731
        monkeypatch.setattr(bench.Extent, "wanted", wanted)
        options.minutes = minutes
        bench.start(options, bench.contextlib.nullcontext)
        records = load_log(log).records
        assert len(records) == count * len(layers)
        assert len({(r.workload, r.config) for r in records}) == len(records)
        assert all(record.ok and record.threads == 1 for record in records)
    options.compile, options.minutes = True, 1e9
    monkeypatch.setattr(bench.Extent, "wanted", lambda _, task: task.space[:4])
    bench.start(options, bench.contextlib.nullcontext)
    assert len(load_log(log).records) == 3 * len(layers)  # nothing is timed
    options.compile, options.again, options.slots = False, 2, 9
    bench.start(options, bench.contextlib.nullcontext)
    records = load_log(log).records
    assert len(records) == 5 * len(layers)
    assert len({(r.workload, r.config) for r in records}) == 3 * len(layers)


def test_the_best_by_the_log_are_read_again(bench: ModuleType) -> None:
    taken = {1: 2e-6, 3: 1e-6, 5: 3e-6, 7: 0.0}
    records = [
        argparse.Namespace(workload="some layer", config=config, seconds=seconds, ok=config != 7)
        for config, seconds in taken.items()
    ]
    assert bench.best_of([task(20)], records, 2) == {"some layer": [3, 1]}
    assert bench.best_of([task(20)], records, 9) == {"some layer": [3, 1, 5]}


def test_layers_that_may_be_asked_for_are_listed(
    bench: ModuleType, tiny_cnn: onnx.ModelProto
) -> None:
    network = open_onnx(tiny_cnn.SerializeToString(), SHAPES, "llvm -num-cores=1")
    names = {str(task.workload) for task in tasks_of(network.graph, network.cpu)}
    rows = bench.listed(network, bench.Extent(**EXTENT))
    assert rows
    assert {row.split(": ")[0] for row in rows} <= names
    assert all("candidates" in row and row.endswith("min") for row in rows)
