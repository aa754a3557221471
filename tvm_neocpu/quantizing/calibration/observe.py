"""What a network's activations do on the samples: extremes and histograms, one sample at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.quantizing.calibration.range_methods import BINS, Histogram, Range
from tvm_neocpu.quantizing.onnx_graphs import showing
from tvm_neocpu.quantizing.onnx_runs import Sample, runner


def observe_extremes(
    model: onnx.ModelProto, samples: Sequence[Sample], tensors: Sequence[str]
) -> dict[str, Range]:
    """The smallest and the largest value of each tensor over all samples.

    Raises NeoCpuError for a tensor that is not finite on a sample.
    """
    found: dict[str, Range] = {}
    for name, values in _activations(model, samples, tensors):
        if values.size == 0:
            continue
        low, high = float(values.min()), float(values.max())
        if not np.isfinite(low) or not np.isfinite(high):
            raise NeoCpuError(f"tensor {name!r} is not finite on the calibration data")
        before = found.get(name, Range(low, high))
        found[name] = Range(min(low, before.low), max(high, before.high))
    return found


def observe_histograms(
    model: onnx.ModelProto, samples: Sequence[Sample], extremes: Mapping[str, Range]
) -> dict[str, Histogram]:
    """The distribution of each tensor in `BINS` equal bins between its extremes."""
    counts = {name: np.zeros(BINS, np.int64) for name in extremes}
    for name, values in _activations(model, samples, list(extremes)):
        low, high = extremes[name].low, extremes[name].high
        # float32 has too few numbers between extremes that lie far from 0 and near each other.
        if high - low < BINS * np.spacing(np.float32(max(-low, high))):
            values = values.astype(np.float64)
        counts[name] += np.histogram(values, BINS, (low, high) if low < high else None)[0]
    return {name: Histogram(extremes[name], counts[name]) for name in extremes}


def _activations(
    model: onnx.ModelProto, samples: Sequence[Sample], tensors: Sequence[str]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """(tensor, its values) of every tensor and sample. Inputs come from the sample itself."""
    fed = {value.name for value in model.graph.input}
    inner = [name for name in tensors if name not in fed]
    run = runner(showing(model, inner))
    for sample in samples:
        yield from ((name, sample[name]) for name in tensors if name in fed)
        yield from zip(inner, run(sample), strict=True)
