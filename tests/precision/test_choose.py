"""The fastest plan within an error: it holds on the data, and a looser one is never slower."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

from tvm_neocpu.core.accuracy.precision import DEFAULT_ERROR, request_of
from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold
from tvm_neocpu.precision import choose
from tvm_neocpu.precision.choose import (
    Chosen,
    Within,
    choose_precision,
    planned_seconds,
)
from tvm_neocpu.precision.mixed_network import SETTINGS, Mix, MixedNetwork
from tvm_neocpu.precision.problem import PrecisionProblem, precision_problem
from tvm_neocpu.quantizing.accuracy.compare import compare
from tvm_neocpu.quantizing.accuracy.meet_bound import BoundError
from tvm_neocpu.quantizing.calibration.errors import CalibrationDataError
from tvm_neocpu.quantizing.quantiser import Quantiser
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import History, current_history

Samples = list[dict[str, np.ndarray]]
# Its instruction makes 4 products where fp32 makes one: int8 pays for every layer that is not tiny.
TARGET = "llvm -mcpu=cascadelake -num-cores=1"


@pytest.fixture(scope="module")
def cpu() -> Cpu:
    return parse_target(TARGET).cpu


@pytest.fixture(scope="module")
def history(cpu: Cpu) -> History:
    return current_history(cpu)


@pytest.fixture(scope="module")
def quantiser(network: onnx.ModelProto, samples: Samples) -> Quantiser:
    return Quantiser(network, "net", samples, SETTINGS)


@pytest.fixture(scope="module")
def mixed(quantiser: Quantiser) -> MixedNetwork:
    return MixedNetwork(quantiser.ready, quantiser.samples, quantiser)


@pytest.fixture(scope="module")
def problem(mixed: MixedNetwork, cpu: Cpu, history: History) -> PrecisionProblem:
    return precision_problem(mixed, {}, cpu, history)


def test_every_layer_has_a_name_and_noise(quantiser: Quantiser, problem: PrecisionProblem) -> None:
    assert sorted(problem.names.values()) == sorted(node.name for node in quantiser.layers)
    convs = {node.id for node in problem.precision_graph.layout_graph.graph.convs}
    assert problem.names.keys() <= convs
    assert all(quantiser.noise.of([name]) > 0 for name in problem.names.values())


def test_noise_of_the_problem_is_that_of_the_model(
    mixed: MixedNetwork, problem: PrecisionProblem
) -> None:
    """Operations between the layers add what the problem does not know, and little of it."""
    graph = problem.precision_graph
    for bound in (1.0, 1e-5, 3e-6):
        found = Within(bound**0.5, mixed, problem).search()
        noise = sum(float(n[k]) for n, k in zip(graph.noise, found.choice, strict=True))
        layers = problem.layers(found.choice)
        assert noise == pytest.approx(found.noise)
        assert noise == pytest.approx(mixed.noise.of(layers), rel=1e-9)


def test_a_looser_bound_is_never_slower(mixed: MixedNetwork, problem: PrecisionProblem) -> None:
    bounds = [1e-5, 2e-4, 4e-4, 7e-4, 1e-3, 2e-3, 4e-3, 1e-1]
    searches = [Within(bound, mixed, problem) for bound in bounds]
    found = [search.search() for search in searches]
    assert all(tight.cost >= loose.cost for tight, loose in itertools.pairwise(found))
    assert found[0].cost > found[-1].cost
    for bound, search, each in zip(bounds, searches, found, strict=True):
        assert search.measured <= bound
        assert search.lower_bound <= each.cost * (1 + 1e-9)
    assert not searches[0].chosen and searches[-1].chosen


def test_a_measured_error_above_the_bound_tightens_it(
    mixed: MixedNetwork, problem: PrecisionProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = mixed.error
    monkeypatch.setattr(mixed, "error", lambda chosen: 6 * truth(chosen))
    search = Within(4e-3, mixed, problem)
    search.search()
    assert search.tightened > 0
    assert search.measured <= 4e-3


def test_where_most_layers_do_not_pay_fewer_may(
    mixed: MixedNetwork, problem: PrecisionProblem
) -> None:
    """The fastest choice within this bound has the first layer, whose data must be converted."""
    assert "conv0" in searched(Within(1e-3, mixed, problem))
    asked = []

    def seconds(chosen: Mix) -> float:
        asked.append(list(chosen.int8))
        return 2.0 if "conv0" in chosen.int8 else 0.5

    search = Within(1e-3, mixed, problem, seconds, fp32=1.0)
    assert "conv0" not in searched(search) and search.chosen
    assert search.tightened == asked.index([*search.chosen.int8]) > 0
    assert search.measured <= 1e-3


def test_a_choice_that_pays_is_not_yet_the_fastest(
    mixed: MixedNetwork, problem: PrecisionProblem
) -> None:
    """Smaller ones are tried until one gains nothing more; the fastest is taken."""
    first = searched(Within(1e-3, mixed, problem))
    asked = []

    def seconds(chosen: Mix) -> float:
        asked.append(list(chosen.int8))
        return [0.9, 0.7, 0.8, 0.1][len(asked) - 1]

    search = Within(1e-3, mixed, problem, seconds, fp32=1.0)
    found = searched(search)
    assert asked[0] == first and found == asked[1] and len(asked) <= 3
    assert search.measured == mixed.error(Mix((*found,)))


def test_where_nothing_pays_nothing_is_chosen(
    mixed: MixedNetwork, problem: PrecisionProblem
) -> None:
    search = Within(1e-1, mixed, problem, lambda _: 2.0, fp32=1.0)
    assert searched(search) == []
    assert search.measured == 0


def searched(search: Within) -> list[str]:
    search.search()
    return [*search.chosen.int8]


@pytest.mark.parametrize("bound", [None, 1e-3])
def test_auto(
    bound: float | None,
    network: onnx.ModelProto,
    samples: Samples,
    cpu: Cpu,
    history: History,
) -> None:
    request = request_of("auto", bound, samples)
    assert request is not None
    chosen = choose_precision(network, None, request, cpu, history)
    report = chosen.report
    assert report.chosen <= report.fp32
    assert report.unbounded is not None and report.unbounded <= report.chosen
    assert measured(network, chosen, samples) == pytest.approx(report.measured, rel=0.05, abs=1e-5)
    assert report.measured <= (bound or DEFAULT_ERROR)
    assert report.in_int8 and chosen.model is not network
    assert planned_seconds(chosen.model, {}, cpu, history) < report.fp32
    first, second = report.lines()
    assert first.startswith(f"precision auto, bound {bound or DEFAULT_ERROR:g}: ")
    assert "the bound costs" in second and "from the fastest plan within it" in second


def test_int8_takes_what_the_problem_thinks_of(
    network: onnx.ModelProto,
    samples: Samples,
    problem: PrecisionProblem,
    cpu: Cpu,
    history: History,
) -> None:
    """The graph that a build sees has the workloads that were priced, but for zero points."""
    request = request_of("int8", None, samples)
    assert request is not None
    chosen = choose_precision(network, None, request, cpu, history)
    assert chosen.report.share == 1.0
    graph = ExtractConvGraph(cpu)(fold(from_onnx(chosen.model)[0], cpu))
    built = {str(node.workload).split(" z")[0] for node in graph.convs}
    options = problem.precision_graph.layout_graph
    priced = {
        f"{node.workload} {option.types}"
        for node, entry in zip(options.graph.nodes, options.options, strict=True)
        for option in entry
        if option.types is not None
    }
    assert {text.removesuffix(" uint8 x int8") for text in built} == {
        text.removesuffix(" uint8 x int8") for text in priced
    }


def test_an_error_that_no_layer_keeps_to(
    network: onnx.ModelProto, samples: Samples, cpu: Cpu, history: History
) -> None:
    request = request_of("int8", 2e-5, samples)
    assert request is not None
    with pytest.raises(BoundError, match="the best reachable is"):
        choose_precision(network, None, request, cpu, history)
    auto = request_of("auto", 2e-5, samples)
    assert auto is not None
    chosen = choose_precision(network, None, auto, cpu, history)
    assert chosen.model is network and chosen.report.chosen == chosen.report.fp32
    assert chosen.report.measured == 0 and not chosen.report.in_int8
    text = chosen.report.unmet
    assert text is not None and text.startswith("no layer in lower precision keeps the error")
    assert f"precision auto: {text}" in chosen.report.lines() and "\n" not in text
    # What is named can be had.
    reachable = float(text.split("the best reachable is ")[1].split(",")[0])
    again = request_of("int8", reachable, samples)
    assert again is not None
    assert choose_precision(network, None, again, cpu, history).report.measured <= reachable


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "accuracy_data is empty"),
        ({}, "accuracy_data has no array for input 'data'"),
        ({"x": np.zeros((1, 8, 12, 12))}, "'x'|no array for input 'data'"),
        ({"data": np.zeros((1, 8, 12, 13))}, r"\[1, 8, 12, 13\] for input 'data', which is"),
        ({"data": np.zeros((0, 8, 12, 12))}, r"\[0, 8, 12, 12\] for input 'data'"),
        ({"data": np.full((1, 8, 12, 12), np.nan)}, "NaN or infinities for input 'data'"),
        ([np.zeros((8, 12, 12))], "arrays by the inputs' names, not ndarray"),
        ("/nowhere", "there is no calibration data /nowhere"),
    ],
)
def test_data_that_do_not_fit(
    data: object, said: str, network: onnx.ModelProto, cpu: Cpu, history: History
) -> None:
    request = request_of("int8", None, data)  # type: ignore[arg-type]
    assert request is not None
    with pytest.raises(CalibrationDataError, match=said) as caught:
        choose_precision(network, None, request, cpu, history)
    assert "\n" not in str(caught.value)


def test_a_quantised_network_is_not_quantised_again(
    quantiser: Quantiser, samples: Samples, cpu: Cpu, history: History
) -> None:
    request = request_of("auto", None, samples)
    assert request is not None
    with pytest.raises(ModelFileError, match="is quantised already"):
        choose_precision(
            quantiser.write(quantiser.everything), None, request, cpu, history, "net.onnx"
        )


def test_fp32_stays_where_the_built_graph_would_be_slower(
    network: onnx.ModelProto,
    samples: Samples,
    cpu: Cpu,
    history: History,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = request_of("auto", None, samples)
    assert request is not None
    monkeypatch.setattr(choose, "planned_seconds", lambda *_: 1.0)
    chosen = choose_precision(network, None, request, cpu, history)
    assert chosen.model is network and not chosen.report.in_int8
    assert chosen.report.chosen == chosen.report.fp32


def measured(network: onnx.ModelProto, chosen: Chosen, samples: Samples) -> float:
    return compare(network, chosen.model, samples).error


def test_a_choice_is_written_once(quantiser: Quantiser) -> None:
    """It is run, priced and compiled; another one in between is written anew, the same again."""
    names = [node.name for node in quantiser.layers]
    first = quantiser.write(quantiser.choose(names[1:]))
    assert quantiser.write(quantiser.choose(names[1:])) is first
    assert quantiser.write(quantiser.everything) != first
    again = quantiser.write(quantiser.choose(names[1:]))
    assert again is not first and again.SerializeToString() == first.SerializeToString()
