"""What was chosen, layer by layer, and what the bound on the error costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_neocpu.core.accuracy.precision import AUTO, FP32, HALF_DTYPES, INT8
from tvm_neocpu.core.messages.plural import plural


@dataclass(frozen=True)
class LayerPrecision:
    """``noise``: the relative error that this layer alone in int8 makes at the outputs.

    ``halves``: the same in the precisions that make it faster, of fp16 and bf16.
    """

    precision: str
    multiply_adds: float
    noise: float | None = None
    halves: Mapping[str, float] = field(default_factory=dict)

    @property
    def int8(self) -> bool:
        return self.precision == INT8


@dataclass(frozen=True)
class Report:
    """Times in seconds, by prediction; errors relative, at the outputs.

    ``fp32`` is the fastest plan in fp32, ``unbounded`` the fastest without a bound, ``chosen``
    what was taken; no plan within the bound takes less than ``lower_bound``. Where int8 was asked
    for everywhere, nothing was searched, and the last two are ``None``.

    ``unmet`` says of a bound that keeps all layers in fp32 which is the best.
    """

    precision: str
    max_error: float | None
    measured: float
    fp32: float
    chosen: float
    layers: Mapping[str, LayerPrecision] = field(default_factory=dict)
    predicted: float | None = None
    unbounded: float | None = None
    lower_bound: float | None = None
    tightened: int = 0
    unmet: str | None = None

    @property
    def in_int8(self) -> list[str]:
        return self.in_precision(INT8)

    def in_precision(self, precision: str) -> list[str]:
        return [name for name, layer in self.layers.items() if layer.precision == precision]

    @property
    def share(self) -> float:
        """The part of the layers' multiply-adds that is in int8."""
        return self.share_of(INT8)

    def share_of(self, precision: str) -> float:
        """The part of the layers' multiply-adds that is in a precision."""
        total = sum(layer.multiply_adds for layer in self.layers.values())
        own = sum(self.layers[name].multiply_adds for name in self.in_precision(precision))
        return own / (total or 1.0)

    @property
    def gap(self) -> float | None:
        """The max share of the chosen plan's time that another one within the bound could save."""
        if self.lower_bound is None or not self.chosen:
            return None
        return max(0.0, 1 - self.lower_bound / self.chosen)

    def lines(self) -> list[str]:
        """For people."""
        bound = "no bound" if self.max_error is None else f"bound {self.max_error:g}"
        shown = [INT8] if self.precision in (INT8, AUTO) else []
        shown += [name for name in HALF_DTYPES if self.in_precision(name)] or [self.precision]
        counts = [
            f"{len(self.in_precision(name))} of {plural(len(self.layers), 'layer')} in {name}, "
            f"{self.share_of(name):.1%} of the multiply-adds"
            for name in dict.fromkeys(shown)
            if name != AUTO
        ]
        found = [
            f"precision {self.precision}, {bound}: {'; '.join(counts)}; "
            f"error at the outputs {self.measured:.2e} on the accuracy data"
        ]
        if self.predicted is not None:
            again = f", after {plural(self.tightened, 'tightening')}" if self.tightened else ""
            found[0] += f" ({self.predicted:.2e} predicted{again})"
        if self.unmet is not None:
            found.append(f"precision {self.precision}: {self.unmet}")
        elif self.precision == AUTO and all(
            layer.precision == FP32 for layer in self.layers.values()
        ):
            found[0] += "; nothing within the bound is predicted to be clearly faster than fp32"
        times = f"fp32 {_ms(self.fp32)} ms, chosen {_ms(self.chosen)} ms"
        if self.unbounded is not None:
            times += f", without a bound {_ms(self.unbounded)} ms"
            paid = self.chosen / self.unbounded - 1 if self.unbounded else 0.0
            times += f": the bound costs {max(0.0, paid):.1%}"
        if self.gap is not None:
            times += f"; at most {self.gap:.1%} from the fastest plan within it"
        return [*found, f"predicted: {times}"]

    def as_json(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "max_error": self.max_error,
            "measured_error": self.measured,
            "predicted_error": self.predicted,
            "fp32_seconds": self.fp32,
            "unbounded_seconds": self.unbounded,
            "chosen_seconds": self.chosen,
            "lower_bound": self.lower_bound,
            "share_int8": self.share,
            "shares": {name: self.share_of(name) for name in (INT8, *HALF_DTYPES)},
            "tightened": self.tightened,
            "unmet": self.unmet,
            "layers": [
                {
                    "layer": name,
                    "int8": layer.int8,
                    "precision": layer.precision,
                    "multiply_adds": layer.multiply_adds,
                    "error_alone": layer.noise,
                    "error_alone_half": dict(layer.halves),
                }
                for name, layer in self.layers.items()
            ],
        }


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
