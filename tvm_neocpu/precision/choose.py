"""From an fp32 ONNX model and a request to the model that is compiled instead of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import onnx

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.core.accuracy.precision import (
    AUTO,
    FP32,
    HALF_DTYPES,
    INT8,
    NAMES,
    AccuracyData,
    NoLayersError,
    Request,
)
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.onnx_model import graph_inputs, resolve_shapes
from tvm_neocpu.pipeline import fold
from tvm_neocpu.precision.mixed_network import Mix, MixedNetwork, mixed_network
from tvm_neocpu.precision.problem import PrecisionProblem, precision_problem
from tvm_neocpu.precision.report import LayerPrecision, Report
from tvm_neocpu.precision.within import Within, within_noise
from tvm_neocpu.quantizing.accuracy.meet_bound import best_reachable, meet_bound
from tvm_neocpu.quantizing.calibration.images import ImageOptions
from tvm_neocpu.quantizing.calibration.samples import Samples, as_samples, read_samples
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime.files.module_info import TensorInfo
from tvm_neocpu.tuning.database.history import History

# More samples change ranges little and cost time.
MAX_SAMPLES = 100
# How much faster a choice of "auto" must be by prediction. Predicted gains were off by up to 3.5 %
# where they were timed (docs/quantizing.md): a smaller one may be a loss.
AUTO_GAIN = 1.05
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
    was tried is faster, or where there are no layers. ``fp16`` and ``bf16`` do so with half
    precision alone.

    Raises CalibrationDataError for data that do not fit the inputs, BoundError for an error that
    int8 cannot keep to, ShapeError for open shapes, ModelFileError for a model that is quantised
    already, NoLayersError where int8 or half precision has nothing to compute,
    MissingPackageError without ONNX Runtime.
    """
    fixed = resolve_shapes(model.graph, shapes)
    samples = samples_of(model, fixed, request.data)
    try:
        network = mixed_network(model, name, samples, request.precision, cpu.halves)
    except NoLayersError:
        if request.precision != AUTO:
            raise
        seconds = planned_seconds(model, fixed, cpu, history)
        return Chosen(model, Report(AUTO, request.max_error, 0.0, seconds, seconds), model)
    if request.precision != INT8:
        return choose_fastest(model, network, fixed, request, cpu, history)
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


def choose_fastest(
    model: onnx.ModelProto,
    network: MixedNetwork,
    shapes: Shapes,
    request: Request,
    cpu: Cpu,
    history: History,
) -> Chosen:
    """What `choose_precision` gives where a bound is kept, of a network that was prepared for it.

    A network of several builds is prepared once: only the times depend on the CPU.
    """
    problem = precision_problem(network, shapes, cpu, history)
    bound = request.max_error
    assert bound is not None, "a request for less than all layers in int8 has a bound"
    fp32, unbounded = within_noise(problem, 0.0), within_noise(problem, math.inf)

    def seconds(mix: Mix) -> float:
        """By the graph that a build will see: epilogues, zero points, conversions."""
        return planned_seconds(network.write(mix), shapes, cpu, history)

    # A build in fp32 may compute layers in groups, which the search does not know.
    best = min(fp32.cost, problem.fp32)
    margin = AUTO_GAIN if request.precision == AUTO else 1.0
    within = Within(bound, network, problem, seconds, best / margin)
    found, mix, mixed = within.search(), within.chosen, model
    unmet = None
    if mix:
        mixed = network.write(mix)
    else:
        unmet = _unmet(bound, network, problem)
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
        unmet,
    )
    return Chosen(mixed, report, network.exact(mix))


def _unmet(bound: float, network: MixedNetwork, problem: PrecisionProblem) -> str | None:
    """What to say of a bound that not even one layer in lower precision keeps to."""
    powers = {
        (name, precision): power
        for name, own in problem.alone().items()
        for precision, power in own.items()
    }
    if not powers:
        return None
    name, precision = min(powers, key=lambda key: powers[key])
    half = {name: HALF_DTYPES[precision]} if precision in HALF_DTYPES else {}
    measured = network.error(network.choose([] if half else [name], half))
    if measured <= bound:
        return None  # nothing within the bound is faster than fp32
    return (
        f"no layer in lower precision keeps the error within {bound:g}: all stay in fp32; "
        f"{best_reachable(measured, name, precision)}"
    )


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
