"""A network that was prepared and observed once, to be written with any of its layers in int8."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx

from tvm_neocpu.core.accuracy.largest_error import largest_error
from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.core.accuracy.precision import NoLayersError
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.quantizing.accuracy.compare import compare
from tvm_neocpu.quantizing.accuracy.sensitivity import measure_noise
from tvm_neocpu.quantizing.calibration.observe import observe_extremes, observe_histograms
from tvm_neocpu.quantizing.calibration.range_methods import METHODS, Range
from tvm_neocpu.quantizing.onnx_graphs import showing, weights_of
from tvm_neocpu.quantizing.onnx_runs import Sample, runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import activations_of, choose_nodes, layers_of
from tvm_neocpu.quantizing.rewriting.correct_bias import bias_shifts, shift_biases
from tvm_neocpu.quantizing.rewriting.equalise import equalise
from tvm_neocpu.quantizing.rewriting.prepare import prepare
from tvm_neocpu.quantizing.rewriting.write_qdq import always_wide, write_qdq
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


class Quantiser:
    """``ready`` is the fp32 model with batch norms folded; its operations have names.

    ``layers`` are its convolutions and dense layers, ``everything`` the names of the operations
    that may be in int8, ``work`` their multiply-adds for a sample (results of what is no layer).

    Raises NoLayersError for a model without layers to quantise, NeoCpuError for an unknown name in
    ``excluded`` or activations that are not finite.
    """

    def __init__(
        self, model: onnx.ModelProto, name: str, samples: Sequence[Sample], settings: Settings
    ) -> None:
        self.settings, self.samples = settings, samples
        self._last: tuple[frozenset[str], onnx.ModelProto] | None = None
        self.ready = prepared(model, name, samples[0], settings)
        self.layers = layers_of(self.ready.graph)
        if not self.layers:
            raise NoLayersError(name)
        _check_names(self.ready, settings.excluded)
        self.everything = self.choose(())
        if not self.everything:
            raise NeoCpuError(f"--exclude leaves no layer of {name} to quantise")
        tensors = activations_of(self.ready.graph, self.everything)
        self._ranges = _ranges(self.ready, samples, tensors, settings.method)
        self.work = work_of(self.ready, samples[0], self.everything)

    def choose(self, returned: Collection[str]) -> list[str]:
        """The operations in int8 where these layers stay fp32, in the graph's order."""
        return choose_nodes(self.ready.graph, {*self.settings.excluded, *returned})

    def write(self, chosen: Collection[str]) -> onnx.ModelProto:
        """The QDQ model with these operations in int8; not to be changed.

        The last one is kept: it is priced, run and compiled, and takes seconds to write.
        """
        wanted = frozenset(chosen)
        if self._last is None or self._last[0] != wanted:
            own = {layer: shift for layer, shift in self._shifts.items() if layer in wanted}
            self._last = wanted, self._write(shift_biases(self.ready, own), chosen)
        return self._last[1]

    def error(self, chosen: Collection[str]) -> float:
        """The relative error at the outputs on all samples."""
        return compare(self.ready, self.write(chosen), self.samples).error

    @cached_property
    def noise(self) -> OutputNoise:
        """What each rounded tensor adds at the outputs, on some samples."""
        return measure_noise(
            self.ready,
            self.write(self.everything),
            self.everything,
            self.work,
            self.samples[:FEW_SAMPLES],
            wide=always_wide(self.settings.wide_results),
        )

    @cached_property
    def _shifts(self) -> Mapping[str, np.ndarray]:
        if not self.settings.correct_bias:
            return {}
        draft = self._write(self.ready, self.everything)
        return bias_shifts(self.ready, draft, self.layers, self.samples)

    def _write(self, model: onnx.ModelProto, chosen: Collection[str]) -> onnx.ModelProto:
        own = self.settings
        how = (own.per_channel, own.wide_results, own.weight_bits)
        return write_qdq(model, self._ranges, chosen, *how)


def prepared(
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


def work_of(model: onnx.ModelProto, sample: Sample, chosen: Sequence[str]) -> dict[str, float]:
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
