"""Looking at a configuration space: its order under the cost model, its knobs as numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tvm_neocpu.core.config import Config, knobs


def in_predicted_order(
    space: Iterable[Config], predicted: Callable[[Config], float]
) -> list[Config]:
    """Each config once, the cheapest prediction first; configs without a sane one come last."""

    def price(config: Config) -> float:
        seconds = predicted(config)
        return seconds if seconds > 0 else math.inf

    return sorted(dict.fromkeys(space), key=price)


def feature_names(space: Iterable[Config]) -> tuple[str, ...]:
    """The columns of :func:`feature_vector`: templates, then all their knobs."""
    kinds = {type(config): config for config in space}
    templates = sorted(f"is:{config.template}" for config in kinds.values())
    names = sorted({name for config in kinds.values() for name in knobs(config)})
    return (*templates, *names)


def feature_vector(config: Config, names: Sequence[str]) -> list[float]:
    """Knobs on a log scale, which is how tiles matter; NaN for knobs of another template."""
    values = {name: math.log2(1 + int(value)) for name, value in knobs(config).items()}
    values[f"is:{config.template}"] = 1.0
    return [values.get(name, 0.0 if name.startswith("is:") else math.nan) for name in names]
