"""Send layers back to fp32 until the error at the outputs stays within a bound.

Greedy on the additive noise model: the layer that saves most noise for what it costs goes first.
The result is run and compared; where the model was too hopeful, its target tightens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.core.errors import NeoCpuError

# Each failed try lowers the predicted noise that is allowed by at least this factor.
TIGHTENING = 0.8


class BoundError(NeoCpuError, ValueError):
    """An error bound that no network with a layer in int8 meets; the text has the best one."""


@dataclass(frozen=True)
class Choice:
    """Which operations are in int8, the layers that went back, predicted and measured error."""

    chosen: tuple[str, ...]
    returned: tuple[str, ...]
    predicted: float
    measured: float


def meet_bound(
    bound: float,
    noise: OutputNoise,
    choose: Callable[[Collection[str]], list[str]],
    measure: Callable[[Collection[str]], float],
    tell: Callable[[str], None] = lambda _: None,
) -> Choice:
    """The choice within ``bound``, which is a relative error at the outputs.

    ``choose`` maps layers that stay fp32 to the operations in int8, none where no layer is left;
    ``measure`` maps operations in int8 to the error at the outputs. Raises BoundError.
    """
    returned: list[str] = []
    target = bound**2
    while True:
        chosen = choose(returned)
        while chosen and noise.of(chosen) > target:
            returned.append(noise.worst(chosen))
            chosen = choose(returned)
        if not chosen:
            return _best_alone(bound, noise, choose, measure)
        predicted, measured = noise.of(chosen), measure(chosen)
        tell(
            f"{len(returned)} operations back in fp32: error {measured:.2e}, "
            f"predicted {predicted**0.5:.2e}, bound {bound:.2e}"
        )
        if measured <= bound:
            return Choice(tuple(chosen), tuple(returned), predicted**0.5, measured)
        target = predicted * min(TIGHTENING, (bound / measured) ** 2)
        # Where no noise is predicted no target is below it: a layer returns with every try.
        returned.append(noise.worst(chosen))


def _best_alone(
    bound: float,
    noise: OutputNoise,
    choose: Callable[[Collection[str]], list[str]],
    measure: Callable[[Collection[str]], float],
) -> Choice:
    """The one layer that adds least noise, alone in int8. Raises BoundError if that is too much."""
    returned = {name: [*(set(noise.needs) - {name})] for name in noise.needs}
    alone = {name: choose(returned[name]) for name in noise.needs}
    layer = min((name for name in alone if alone[name]), key=lambda name: noise.of(alone[name]))
    measured = measure(alone[layer])
    if measured <= bound:
        predicted = noise.of(alone[layer]) ** 0.5
        return Choice(tuple(alone[layer]), tuple(sorted(returned[layer])), predicted, measured)
    raise BoundError(
        f"no layer in int8 keeps the error within {bound:g}; "
        f"{best_reachable(measured, layer, 'int8')}"
    )


def best_reachable(measured: float, layer: str, precision: str) -> str:
    """The figure is rounded up: it is a bound that can be met."""
    return f"the best reachable is {measured * 1.005:.3g}, with {layer} alone in {precision}"
