"""The whole way from an fp32 network and samples to a QDQ network and its accuracy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from tvm_neocpu.contrib.onnx_runs import Sample, runner
from tvm_neocpu.contrib.quantizing.accuracy.compare import Accuracy, compare
from tvm_neocpu.contrib.quantizing.accuracy.meet_bound import Choice, meet_bound
from tvm_neocpu.contrib.quantizing.accuracy.sensitivity import measure_noise
from tvm_neocpu.contrib.quantizing.calibration.observe import observe_extremes, observe_histograms
from tvm_neocpu.contrib.quantizing.calibration.range_methods import METHODS, Range
from tvm_neocpu.contrib.quantizing.onnx_graphs import showing, weights_of
from tvm_neocpu.contrib.quantizing.rewriting.choose_nodes import (
    activations_of,
    choose_nodes,
    layers_of,
)
from tvm_neocpu.contrib.quantizing.rewriting.correct_bias import bias_shifts, shift_biases
from tvm_neocpu.contrib.quantizing.rewriting.equalise import equalise
from tvm_neocpu.contrib.quantizing.rewriting.prepare import prepare
from tvm_neocpu.contrib.quantizing.rewriting.write_qdq import write_qdq
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.largest_error import largest_error
from tvm_neocpu.targets.syntax import suggestion

# Folding and equalising change roundings alone: of the largest value.
SAME = 1e-3
# A mean square needs fewer samples than extremes do.
FEW_SAMPLES = 4


@dataclass(frozen=True)
class Settings:
    """How to quantise. ``max_error`` is relative, at the outputs: 0.1 is an SQNR of 20 dB."""

    method: str = "minmax"
    per_channel: bool = False
    equalise: bool = True
    correct_bias: bool = True
    # Convolutions' results that nothing in int8 reads are not rounded.
    wide_results: bool = False
    # 7: sums of two products of u8 and s8 fit 16 bits, and most sums of four.
    weight_bits: int = 8
    excluded: tuple[str, ...] = ()
    max_error: float | None = None


@dataclass(frozen=True)
class Quantised:
    """The QDQ model, and what there is to say of it."""

    model: onnx.ModelProto
    accuracy: Accuracy
    # The same with ONNX Runtime's integer kernels on this machine; outputs only, some samples.
    with_kernels: Accuracy
    # Multiply-adds of a sample, of each layer in the graph's order.
    layers: Mapping[str, float]
    chosen: frozenset[str]
    operators: Mapping[str, str] = field(default_factory=dict)
    choice: Choice | None = None

    @property
    def share(self) -> float:
        """The part of all layers' multiply-adds that is in int8."""
        done = sum(work for name, work in self.layers.items() if name in self.chosen)
        return done / (sum(self.layers.values()) or 1.0)


def quantize_model(
    model: onnx.ModelProto,
    name: str,
    samples: Sequence[Sample],
    settings: Settings = Settings(),
    tell: Callable[[str], None] = lambda _: None,
) -> Quantised:
    """Quantise ``model``; every sample is one run's inputs.

    Raises NeoCpuError for a model without layers to quantise, an unknown name in ``excluded``, or
    activations that are not finite; BoundError for a ``max_error`` that cannot be met.
    """
    ready = _prepared(model, name, samples[0], settings)
    layers = layers_of(ready.graph)
    if not layers:
        raise NeoCpuError(f"{name} has no convolution or dense layer with constant weights")
    _check_names(ready, settings.excluded)
    everything = choose_nodes(ready.graph, settings.excluded)
    if not everything:
        raise NeoCpuError(f"--exclude leaves no layer of {name} to quantise")
    ranges = _ranges(ready, samples, activations_of(ready.graph, everything), settings.method)
    how = (settings.per_channel, settings.wide_results, settings.weight_bits)
    draft = write_qdq(ready, ranges, everything, *how)
    shifts = bias_shifts(ready, draft, layers, samples) if settings.correct_bias else {}

    def write(chosen: Collection[str]) -> onnx.ModelProto:
        own = {layer: shift for layer, shift in shifts.items() if layer in chosen}
        return write_qdq(shift_biases(ready, own), ranges, chosen, *how)

    work = _work(ready, samples[0], everything)
    choice = None
    if settings.max_error is not None:
        tell(f"measuring the noise of {len(layers)} layers")
        noise = measure_noise(ready, write(everything), everything, work, samples[:FEW_SAMPLES])
        choice = meet_bound(
            settings.max_error,
            noise,
            lambda returned: choose_nodes(ready.graph, {*settings.excluded, *returned}),
            lambda chosen: compare(ready, write(chosen), samples).error,
            tell,
        )
    chosen = choice.chosen if choice else everything
    quantised = write(chosen)
    onnx.checker.check_model(quantised)
    return Quantised(
        quantised,
        compare(ready, quantised, samples, layers),
        compare(ready, quantised, samples[:FEW_SAMPLES], exact=False),
        {node.name: work.get(node.name, 0.0) for node in layers},
        frozenset(chosen),
        {node.name: node.op_type for node in layers},
        choice,
    )


def _prepared(
    model: onnx.ModelProto, name: str, sample: Sample, settings: Settings
) -> onnx.ModelProto:
    """The fp32 model with batch norms folded and, if wanted, equalised; checked on a sample.

    Weights with a scale for each channel need no equalising.
    """
    ready = prepare(model, name)
    if settings.equalise and not settings.per_channel:
        ready = equalise(ready)
    error = largest_error(runner(ready)(sample), runner(model)(sample))
    if not error <= SAME:
        raise NeoCpuError(f"folding the weights of {name} changed its outputs by {error:.1e}")
    return ready


def _ranges(
    model: onnx.ModelProto, samples: Sequence[Sample], tensors: Sequence[str], method: str
) -> dict[str, Range]:
    if method not in METHODS:
        raise NeoCpuError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    extremes = observe_extremes(model, samples, tensors)
    if method == "minmax":  # needs no second run
        return {name: seen.with_zero() for name, seen in extremes.items()}
    histograms = observe_histograms(model, samples, extremes)
    return {name: METHODS[method](histogram) for name, histogram in histograms.items()}


def _work(model: onnx.ModelProto, sample: Sample, chosen: Sequence[str]) -> dict[str, float]:
    """Multiply-adds of each layer for one sample; for another operation its results' number."""
    layers = {node.name for node in layers_of(model.graph)}
    nodes = [node for node in model.graph.node if node.name in {*chosen, *layers}]
    results = runner(showing(model, [node.output[0] for node in nodes]))(sample)
    weights = weights_of(model.graph)
    work = {}
    for node, result in zip(nodes, results, strict=True):
        work[node.name] = float(result.size)
        if node.name in layers:
            dims = weights[node.input[1]].dims
            outputs = dims[0] if node.op_type == "Conv" else result.shape[-1]
            work[node.name] *= float(np.prod(dims)) / outputs
    return work


def _check_names(model: onnx.ModelProto, excluded: Sequence[str]) -> None:
    names = [node.name for node in model.graph.node]
    for name in excluded:
        if name not in names:
            hint = suggestion(name, names) or f"; the first are {', '.join(names[:5])}"
            raise NeoCpuError(f"the network has no operation {name!r}{hint}")
