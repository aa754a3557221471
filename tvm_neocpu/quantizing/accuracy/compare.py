"""How far a quantised network is from fp32 on the samples: at its outputs and layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tvm_neocpu.core.accuracy.output_noise import relative_error, sqnr
from tvm_neocpu.quantizing.onnx_graphs import output_names, readers_of, showing
from tvm_neocpu.quantizing.onnx_runs import Sample, runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import ABSORBED
from tvm_neocpu.quantizing.rewriting.write_qdq import pairs_of


@dataclass
class Powers:
    """Sums of squares of a signal and of the noise on it."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, wanted: NDArray[Any], found: NDArray[Any]) -> None:
        exact = wanted.astype(np.float64)
        self.signal += float(np.sum(np.square(exact)))
        self.noise += float(np.sum(np.square(exact - found)))

    @property
    def sqnr(self) -> float:
        """Signal to quantisation noise ratio in dB."""
        return sqnr(self.signal, self.noise)

    @property
    def error(self) -> float:
        """Root mean square of the noise over that of the signal."""
        return relative_error(self.signal, self.noise)


@dataclass
class Accuracy:
    """What `compare` measured."""

    outputs: dict[str, Powers] = field(default_factory=dict)
    # Layer -> powers at its result, noise of all layers before it included.
    layers: dict[str, Powers] = field(default_factory=dict)
    # Output of (rows, classes) -> rows whose largest class is fp32's, and rows.
    top1: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """The largest relative error of an output."""
        return max((powers.error for powers in self.outputs.values()), default=0.0)

    @property
    def sqnr(self) -> float:
        """The smallest SQNR of an output, in dB."""
        return min((powers.sqnr for powers in self.outputs.values()), default=np.inf)

    @property
    def agreement(self) -> float | None:
        """The share of rows with fp32's largest class; ``None`` for no classifier."""
        rows = sum(total for _, total in self.top1.values())
        return sum(same for same, _ in self.top1.values()) / rows if rows else None


def compare(
    model: onnx.ModelProto,
    quantised: onnx.ModelProto,
    samples: Sequence[Sample],
    layers: Sequence[onnx.NodeProto] = (),
    *,
    exact: bool = True,
) -> Accuracy:
    """Both models on all samples; ``exact`` as in `onnx_runs.runner`.

    Inner tensors are looked at where ``layers`` are given, and then in exact arithmetic.
    """
    outputs = output_names(model)
    shown = _results(model, quantised, layers)
    wanted_run = runner(showing(model, [*outputs, *(wanted for wanted, _ in shown.values())]))
    found_run = runner(
        showing(quantised, [*outputs, *(found for _, found in shown.values())]), exact=exact
    )
    accuracy = Accuracy({name: Powers() for name in outputs}, {name: Powers() for name in shown})
    every = [*accuracy.outputs.values(), *accuracy.layers.values()]
    for sample in samples:
        wanted, found = wanted_run(sample), found_run(sample)
        for powers, one, other in zip(every, wanted, found, strict=True):
            powers.add(one, other)
        _count_top1(accuracy, outputs, wanted, found)
    return accuracy


def _count_top1(
    accuracy: Accuracy,
    outputs: Sequence[str],
    wanted: Sequence[NDArray[Any]],
    found: Sequence[NDArray[Any]],
) -> None:
    for name, one, other in zip(outputs, wanted, found, strict=False):
        if one.ndim < 2 or one.shape[1] < 2 or max(one.shape[2:], default=1) > 1:
            continue
        rows = one.reshape(one.shape[:2])
        same = np.argmax(rows, 1) == np.argmax(other.reshape(rows.shape), 1)
        before = accuracy.top1.get(name, (0, 0))
        accuracy.top1[name] = (before[0] + int(same.sum()), before[1] + len(same))


def _results(
    model: onnx.ModelProto, quantised: onnx.ModelProto, layers: Sequence[onnx.NodeProto]
) -> Mapping[str, tuple[str, str]]:
    """Layer -> its result in fp32 and in the quantised model: behind its activation and its DQ."""
    pairs = {tensor: dq.output[0] for tensor, (_, dq) in pairs_of(quantised.graph).items()}
    readers = readers_of(model.graph)
    made = {name for node in quantised.graph.node for name in node.output}
    found = {}
    for node in layers:
        tensor = node.output[0]
        following = readers.get(tensor, [])
        if len(following) == 1 and following[0].op_type in ABSORBED:
            behind = following[0].output[0]
            tensor = behind if tensor not in pairs else tensor
        other = pairs.get(tensor, tensor)
        if other in made:
            found[node.name] = (tensor, other)
    return found
