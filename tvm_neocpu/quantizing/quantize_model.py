"""The whole way from an fp32 network and samples to a QDQ network and its accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from tvm_neocpu.quantizing.accuracy.compare import Accuracy, compare
from tvm_neocpu.quantizing.accuracy.meet_bound import Choice, meet_bound
from tvm_neocpu.quantizing.onnx_runs import Sample
from tvm_neocpu.quantizing.quantiser import FEW_SAMPLES, Quantiser, Settings

DEFAULTS = Settings()


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
    settings: Settings = DEFAULTS,
    tell: Callable[[str], None] = lambda _: None,
) -> Quantised:
    """Quantise ``model``; every sample is one run's inputs.

    Raises NeoCpuError for a model without layers to quantise, an unknown name in ``excluded``, or
    activations that are not finite; BoundError for a ``max_error`` that cannot be met.
    """
    quantiser = Quantiser(model, name, samples, settings)
    ready, layers, work = quantiser.ready, quantiser.layers, quantiser.work
    choice = None
    if settings.max_error is not None:
        tell(f"measuring the noise of {len(layers)} layers")
        choice = meet_bound(
            settings.max_error, quantiser.noise, quantiser.choose, quantiser.error, tell
        )
    chosen = choice.chosen if choice else quantiser.everything
    quantised = quantiser.write(chosen)
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


__all__ = ["Quantised", "Settings", "quantize_model"]
