"""From an fp32 ONNX model and a request to the model that is compiled instead of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.core.output_noise import OutputNoise
from tvm_neocpu.core.precision import FP32, HALF_DTYPES, INT8, AccuracyData, Request
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.onnx_model import graph_inputs, resolve_shapes
from tvm_neocpu.global_search.solvers.restricted import restricted
from tvm_neocpu.global_search.solvers.within_bound import WithinBound, solve_within
from tvm_neocpu.pipeline import choose_plan, fold
from tvm_neocpu.precision.mixed_network import Mix, MixedNetwork, mixed_network
from tvm_neocpu.precision.problem import PrecisionProblem, precision_problem
from tvm_neocpu.precision.report import LayerPrecision, Report
from tvm_neocpu.quantizing.accuracy.meet_bound import TIGHTENING, meet_bound
from tvm_neocpu.quantizing.calibration.images import ImageOptions
from tvm_neocpu.quantizing.calibration.samples import Samples, as_samples, read_samples
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime.module_info import TensorInfo
from tvm_neocpu.tuning.database.history import History

# More samples change ranges little and cost time.
MAX_SAMPLES = 100
# The share of the noise power that is allowed next, where a choice does not pay. A try runs all
# samples and plans a network: a smaller choice sooner is worth more than the largest one late.
UNPAID = 0.5

# What people call a type of half precision.
NAMES = {dtype: name for name, dtype in HALF_DTYPES.items()}
NO_HALVES: Mapping[str, Mapping[str, float]] = MappingProxyType({})

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Chosen:
    """``model`` is to be compiled at the same input shapes; the given one where fp32 is best.

    ``exact`` says to any engine what that computes: half precision by casts.
    """

    model: onnx.ModelProto
    report: Report
    exact: onnx.ModelProto


def choose_precision(
    model: onnx.ModelProto,
    shapes: Shapes | None,
    request: Request,
    cpu: Cpu,
    history: History,
    name: str = "the network",
) -> Chosen:
    """The model with Q and DQ around the layers that are to compute in int8, and with the layers
    named whose weights are to be of half precision.

    ``int8`` takes all layers that can, or as many as the bound allows. ``auto`` takes those that
    make the network faster by prediction, in int8 or half precision, and none where no choice that
    was tried is faster. ``fp16`` and ``bf16`` do so with half precision alone.

    Raises CalibrationDataError for data that do not fit the inputs, BoundError for an error that
    int8 cannot keep to, ShapeError for open shapes, ModelFileError for a model that is quantised
    already, MissingPackageError without ONNX Runtime.
    """
    fixed = resolve_shapes(model.graph, shapes)
    samples = samples_of(model, fixed, request.data)
    network = mixed_network(model, name, samples, request.precision, cpu.halves)
    if request.precision != INT8:
        return _fastest(model, network, fixed, request, cpu, history)
    quantiser = network.quantiser
    assert quantiser is not None, "int8 is written by a quantiser"
    choice = None
    if request.max_error is not None:
        choice = meet_bound(request.max_error, quantiser.noise, quantiser.choose, quantiser.error)
    mix = Mix(tuple(choice.chosen if choice else quantiser.everything))
    mixed = network.write(mix)
    report = Report(
        request.precision,
        request.max_error,
        choice.measured if choice else network.error(mix),
        planned_seconds(model, fixed, cpu, history),
        planned_seconds(mixed, fixed, cpu, history),
        _layers(network, mix, quantiser.noise if choice else None),
        choice.predicted if choice else None,
    )
    return Chosen(mixed, report, mixed)


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


def _fastest(
    model: onnx.ModelProto,
    network: MixedNetwork,
    shapes: Shapes,
    request: Request,
    cpu: Cpu,
    history: History,
) -> Chosen:
    problem = precision_problem(network, shapes, cpu, history)
    bound = request.max_error
    assert bound is not None, "a request for less than all layers in int8 has a bound"
    fp32, unbounded = _within(problem, 0.0), _within(problem, math.inf)

    def seconds(mix: Mix) -> float:
        """By the graph that a build will see: epilogues, zero points, conversions."""
        return planned_seconds(network.write(mix), shapes, cpu, history)

    # A build in fp32 may compute layers in groups, which the search does not know.
    within = Within(bound, network, problem, seconds, min(fp32.cost, problem.fp32))
    found, mix, mixed = within.search(), within.chosen, model
    if mix:
        mixed = network.write(mix)
    else:
        found = fp32
    report = Report(
        request.precision,
        bound,
        within.measured,
        fp32.cost,
        found.cost,
        _layers(network, mix, network.noise, problem.halves),
        math.sqrt(problem.power(mix)),
        unbounded.cost,
        min(found.cost, within.lower_bound),
        within.tightened,
    )
    return Chosen(mixed, report, network.exact(mix))


class Within:
    """The search for the fastest plan whose measured error stays within a bound, and which pays.

    ``seconds`` predicts a build with some layers in lower precision, which pays below ``fp32``
    seconds.

    ``chosen`` is what is in lower precision, ``measured`` is its error, ``lower_bound`` that of the
    first search, whose target is the bound itself; ``tightened`` counts the others.
    """

    def __init__(
        self,
        bound: float,
        network: MixedNetwork,
        problem: PrecisionProblem,
        seconds: Callable[[Mix], float] = lambda _: 0.0,
        fp32: float = math.inf,
    ) -> None:
        self._bound, self._network, self._problem = bound, network, problem
        self._seconds, self._fp32 = seconds, fp32
        self.chosen = Mix()
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
        while mix := self._mix(found):
            measured, shrink = self._network.error(mix), UNPAID
            if not measured <= self._bound:
                shrink = min(TIGHTENING, (self._bound / measured) ** 2)
            else:
                seconds = self._seconds(mix)
                if seconds < fastest:
                    best, fastest = found, seconds
                    self.chosen, self.measured, self.tightened = mix, measured, tries
                    if not mix.int8:
                        break  # half precision needs no conversions: fewer layers gain nothing
                elif best is not None:
                    break
            tries += 1
            target = min(target, found.noise) * shrink
            found = _within(self._problem, target)
        if best is not None:
            return best
        self.tightened = tries
        return found

    def _mix(self, found: WithinBound) -> Mix:
        """The operations in int8 where the layers of a choice are, and those in half precision."""
        problem = self._problem
        return self._network.choose(problem.layers(found.choice), problem.in_half(found.choice))


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
    network: MixedNetwork,
    mix: Mix,
    noise: OutputNoise | None,
    halves: Mapping[str, Mapping[str, float]] = NO_HALVES,
) -> dict[str, LayerPrecision]:
    def precision(name: str) -> str:
        if name in mix.int8:
            return INT8
        return NAMES[mix.half[name]] if name in mix.half else FP32

    return {
        node.name: LayerPrecision(
            precision(node.name),
            network.work.get(node.name, 0.0),
            math.sqrt(noise.of([node.name])) if noise and node.name in noise.needs else None,
            {NAMES[t]: math.sqrt(power) for t, power in halves.get(node.name, {}).items()},
        )
        for node in network.layers
    }
