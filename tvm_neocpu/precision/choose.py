"""From an fp32 ONNX model and a request to the model that is compiled instead of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.core.output_noise import OutputNoise
from tvm_neocpu.core.precision import AUTO, AccuracyData, Request
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.onnx_model import graph_inputs, resolve_shapes
from tvm_neocpu.global_search.solvers.restricted import restricted
from tvm_neocpu.global_search.solvers.within_bound import WithinBound, solve_within
from tvm_neocpu.pipeline import choose_plan, fold
from tvm_neocpu.precision.problem import PrecisionProblem, precision_problem
from tvm_neocpu.precision.report import LayerPrecision, Report
from tvm_neocpu.quantizing.accuracy.meet_bound import TIGHTENING, meet_bound
from tvm_neocpu.quantizing.calibration.images import ImageOptions
from tvm_neocpu.quantizing.calibration.samples import Samples, as_samples, read_samples
from tvm_neocpu.quantizing.quantiser import Quantiser, Settings
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime.module_info import TensorInfo
from tvm_neocpu.tuning.database.history import History

# More samples change ranges little and cost time.
MAX_SAMPLES = 100
# Ranges by least squared error, a scale for each channel of a weight, results of convolutions not
# rounded for readers in fp32: the most accurate way to quantise, and none of it costs time here.
SETTINGS = Settings("mse", per_channel=True, wide_results=True)
# The share of the noise power that is allowed next, where a choice does not pay. A try runs all
# samples and plans a network: a smaller choice sooner is worth more than the largest one late.
UNPAID = 0.5

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Chosen:
    """``model`` is to be compiled at the same input shapes; the given one where fp32 is best."""

    model: onnx.ModelProto
    report: Report


def choose_precision(
    model: onnx.ModelProto,
    shapes: Shapes | None,
    request: Request,
    cpu: Cpu,
    history: History,
    name: str = "the network",
) -> Chosen:
    """The model with Q and DQ around the layers that are to compute in int8.

    ``int8`` takes all layers that can, or as many as the bound allows. ``auto`` takes those that
    make the network faster by prediction, and none where no choice that was tried is faster.

    Raises CalibrationDataError for data that do not fit the inputs, BoundError for an error that
    int8 cannot keep to, ShapeError for open shapes, ModelFileError for a model that is quantised
    already, MissingPackageError without ONNX Runtime.
    """
    fixed = resolve_shapes(model.graph, shapes)
    quantiser = Quantiser(model, name, samples_of(model, fixed, request.data), SETTINGS)
    if request.precision == AUTO:
        return _auto(model, quantiser, fixed, request, cpu, history)
    choice = None
    if request.max_error is not None:
        choice = meet_bound(request.max_error, quantiser.noise, quantiser.choose, quantiser.error)
    chosen = choice.chosen if choice else quantiser.everything
    mixed = quantiser.write(chosen)
    report = Report(
        request.precision,
        request.max_error,
        choice.measured if choice else quantiser.error(chosen),
        planned_seconds(model, fixed, cpu, history),
        planned_seconds(mixed, fixed, cpu, history),
        _layers(quantiser, chosen, quantiser.noise if choice else None),
        choice.predicted if choice else None,
    )
    return Chosen(mixed, report)


def samples_of(model: onnx.ModelProto, shapes: Shapes, data: AccuracyData) -> Samples:
    """Runs' inputs for calibration and for the check. Raises CalibrationDataError."""
    infos = []
    for value in graph_inputs(model.graph):
        shape = tuple(shapes[value.name])
        if not shape:
            raise ShapeError(f"input {value.name!r} is a scalar; quantise without it")
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
        infos.append(TensorInfo(value.name, shape, kind))
    if isinstance(data, str | Path):
        return read_samples(Path(data), infos, ImageOptions(), MAX_SAMPLES)
    return as_samples(data, infos, MAX_SAMPLES)


def planned_seconds(model: onnx.ModelProto, shapes: Shapes, cpu: Cpu, history: History) -> float:
    """What a build of the model is predicted to take."""
    mod, _ = from_onnx(model, shapes)
    return choose_plan(ExtractConvGraph(cpu)(fold(mod, cpu)), cpu, history).seconds


def _auto(
    model: onnx.ModelProto,
    quantiser: Quantiser,
    shapes: Shapes,
    request: Request,
    cpu: Cpu,
    history: History,
) -> Chosen:
    problem = precision_problem(quantiser, shapes, cpu, history)
    bound = request.max_error
    assert bound is not None, "a request for auto has a bound"
    fp32, unbounded = _within(problem, 0.0), _within(problem, math.inf)

    def seconds(chosen: Collection[str]) -> float:
        """By the graph that a build will see: epilogues, zero points, conversions."""
        return planned_seconds(quantiser.write(chosen), shapes, cpu, history)

    within = Within(bound, quantiser, problem, seconds, fp32.cost)
    found, chosen, mixed = within.search(), within.chosen, model
    if chosen:
        mixed = quantiser.write(chosen)
    else:
        found = fp32
    report = Report(
        AUTO,
        bound,
        within.measured,
        fp32.cost,
        found.cost,
        _layers(quantiser, chosen, quantiser.noise),
        math.sqrt(quantiser.noise.of(chosen)),
        unbounded.cost,
        min(found.cost, within.lower_bound),
        within.tightened,
    )
    return Chosen(mixed, report)


class Within:
    """The search for the fastest plan whose measured error stays within a bound, and which pays.

    ``seconds`` predicts a build with some operations in int8, which pays below ``fp32`` seconds.

    ``chosen`` are the operations in int8, ``measured`` is their error, ``lower_bound`` that of the
    first search, whose target is the bound itself; ``tightened`` counts the others.
    """

    def __init__(
        self,
        bound: float,
        quantiser: Quantiser,
        problem: PrecisionProblem,
        seconds: Callable[[Collection[str]], float] = lambda _: 0.0,
        fp32: float = math.inf,
    ) -> None:
        self._bound, self._quantiser, self._problem = bound, quantiser, problem
        self._seconds, self._fp32 = seconds, fp32
        self.chosen: list[str] = []
        self.measured, self.lower_bound, self.tightened = 0.0, 0.0, 0

    def search(self) -> WithinBound:
        """Where the measured error is above the bound, the predicted one must get smaller still.

        It must get smaller, too, where the choice does not pay: fewer layers in int8 may, since
        they need fewer conversions. For the same reason a choice that pays is not yet the fastest:
        smaller ones are tried until one is slower than the one before. The last choice of all is
        fp32.
        """
        target = self._bound**2
        found = _within(self._problem, target)
        self.lower_bound = found.lower_bound
        best, fastest, tries = None, self._fp32, 0
        while chosen := self._chosen(found):
            measured, shrink = self._quantiser.error(chosen), UNPAID
            if not measured <= self._bound:
                shrink = min(TIGHTENING, (self._bound / measured) ** 2)
            else:
                seconds = self._seconds(chosen)
                if seconds < fastest:
                    best, fastest = found, seconds
                    self.chosen, self.measured, self.tightened = chosen, measured, tries
                elif best is not None:
                    return best
            tries += 1
            target = min(target, found.noise) * shrink
            found = _within(self._problem, target)
        if best is None:
            self.tightened = tries
        return found if best is None else best

    def _chosen(self, found: WithinBound) -> list[str]:
        """The operations that are in int8 where the layers of a choice are."""
        layers = set(self._problem.layers(found.choice))
        others = [node.name for node in self._quantiser.layers if node.name not in layers]
        return self._quantiser.choose(others) if layers else []


def _within(problem: PrecisionProblem, bound: float) -> WithinBound:
    """The fastest plan whose noise power is at most ``bound``; fp32 has none."""
    graph = problem.precision_graph
    layout, noise = graph.problem, graph.noise
    if bound == 0:
        # Not even rounding that makes no difference on the samples.
        options = graph.layout_graph.options
        whole = {
            i: np.array([option.types is None for option in entry])
            for i, entry in enumerate(options)
        }
        layout = restricted(layout, whole)
    found = solve_within(layout, noise, bound)
    assert found is not None, "fp32 makes no noise"
    return found


def _layers(
    quantiser: Quantiser, chosen: Collection[str], noise: OutputNoise | None
) -> dict[str, LayerPrecision]:
    return {
        node.name: LayerPrecision(
            node.name in chosen,
            quantiser.work.get(node.name, 0.0),
            math.sqrt(noise.of([node.name])) if noise and node.name in noise.needs else None,
        )
        for node in quantiser.layers
    }
