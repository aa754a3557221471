"""A network whose layers are in int8, in half precision or in fp32: written, run and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.core.accuracy.precision import AUTO, HALF_DTYPES, INT8, NoLayersError
from tvm_neocpu.core.machine.half import BF16
from tvm_neocpu.frontend.reading.half_metadata import asking_for_halves
from tvm_neocpu.quantizing.accuracy.compare import compare
from tvm_neocpu.quantizing.accuracy.half_noise import measure_bf16
from tvm_neocpu.quantizing.onnx_runs import Sample
from tvm_neocpu.quantizing.quantiser import Quantiser, Settings, prepared, work_of
from tvm_neocpu.quantizing.rewriting.choose_nodes import layers_of
from tvm_neocpu.quantizing.rewriting.in_half import in_half

# Ranges by least squared error, a scale for each channel of a weight, results of convolutions not
# rounded for readers in fp32: the most accurate way to quantise, and none of it costs time here.
SETTINGS = Settings("mse", per_channel=True, wide_results=True)
# Samples on which the noise of half precision is measured. It is small, so that few of them may
# hold all of it: those where another class becomes the largest.
HALF_SAMPLES = 16


@dataclass(frozen=True)
class Mix:
    """``int8``: operations; ``half``: layers, and the types in which they store their weights."""

    int8: tuple[str, ...] = ()
    half: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.int8 or self.half)


class MixedNetwork:
    """``ready`` is the fp32 model with batch norms folded, ``layers`` are its layers.

    ``work`` are their multiply-adds. ``quantiser`` writes the layers in int8; without one none is.
    ``half_types`` are the types of half precision that layers may have. Of layers in half
    precision, those in ``rounding`` round their data to bf16, too, where their weights are bf16.
    """

    def __init__(
        self,
        ready: onnx.ModelProto,
        samples: Sequence[Sample],
        quantiser: Quantiser | None = None,
        half_types: Sequence[str] = (),
    ) -> None:
        self.ready, self.samples, self.quantiser = ready, samples, quantiser
        self.half_types = tuple(half_types)
        self.layers = layers_of(ready.graph)
        self.work = work_of(ready, samples[0], ()) if quantiser is None else quantiser.work
        self.rounding: frozenset[str] = frozenset()
        self.growths: dict[tuple[str, str], float] = {}

    @property
    def noise(self) -> OutputNoise:
        """Of the layers in int8."""
        return OutputNoise({}, {}, {}) if self.quantiser is None else self.quantiser.noise

    def bf16_powers(
        self, layers: Mapping[str, bool], growths: Mapping[tuple[str, str], float]
    ) -> dict[str, float]:
        """The noise power at the outputs of each of these layers alone in bf16.

        ``layers`` says of each whether its data are rounded, too. ``growths``: (layer, type) ->
        noise power of its kernels over that of rounded weights. Both are remembered.
        """
        self.growths = dict(growths)
        self.rounding = frozenset(name for name, data in layers.items() if data)
        return measure_bf16(self.ready, layers, self.samples[:HALF_SAMPLES])

    def choose(self, int8: Sequence[str], half: Mapping[str, str]) -> Mix:
        """The layers in int8 with the operations that carry their results, and those in half."""
        if self.quantiser is None or not int8:
            return Mix((), half)
        others = [node.name for node in self.layers if node.name not in int8]
        return Mix(tuple(self.quantiser.choose(others)), half)

    def error(self, mix: Mix) -> float:
        """The relative error at the outputs on all samples."""
        return compare(self.ready, self.exact(mix), self.samples).error

    def exact(self, mix: Mix) -> onnx.ModelProto:
        """The model as any engine computes it in exact arithmetic; not to be changed.

        Where a kernel's noise is larger than that of rounded weights, these are moved as far.
        """
        rounding = {n for n, t in mix.half.items() if n in self.rounding and t == BF16.dtype}
        found = self._in_int8(mix)
        growths = {name: self.growths.get((name, dtype), 1.0) for name, dtype in mix.half.items()}
        return in_half(found, mix.half, rounding, growths) if mix.half else found

    def write(self, mix: Mix) -> onnx.ModelProto:
        """The model to compile; not to be changed."""
        found = self._in_int8(mix)
        return asking_for_halves(found, mix.half) if mix.half else found

    def _in_int8(self, mix: Mix) -> onnx.ModelProto:
        return self.quantiser.write(mix.int8) if self.quantiser and mix.int8 else self.ready


def mixed_network(
    model: onnx.ModelProto,
    name: str,
    samples: Sequence[Sample],
    precision: str,
    halves: Sequence[str],
) -> MixedNetwork:
    """What a request for ``precision`` chooses from; ``halves`` are the types that a CPU widens.

    Raises what :class:`Quantiser` raises, NoLayersError in half precision, too.
    """
    if precision in (AUTO, INT8):
        quantiser = Quantiser(model, name, samples, SETTINGS)
        return MixedNetwork(
            quantiser.ready, samples, quantiser, halves if precision == AUTO else ()
        )
    ready = prepared(model, name, samples[0], SETTINGS)
    if not layers_of(ready.graph):
        raise NoLayersError(name)
    return MixedNetwork(ready, samples, half_types=(HALF_DTYPES[precision],))
