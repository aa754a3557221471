"""Evolution over knobs (AutoTVM's GATuner): children of good configs, within the space."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from tvm_neocpu.core.network.config import Config, knobs
from tvm_neocpu.tuning.tuners.base import FadingTuner, in_predicted_order

# Parents are the best of those measured; a child's knob is one parent's, or any with this chance.
PARENTS = 12
MUTATION = 0.15
# Crossings tried for a batch: most children lie outside the space or were measured already.
CROSSINGS = 200

Genes = tuple[str, tuple[tuple[str, int | bool], ...]]


class GeneticTuner(FadingTuner):
    """Proposes children of the best configs first, then the rest in the cost model's order.

    Equal seeds and observations give equal proposals.
    """

    def __init__(
        self, space: Sequence[Config], predicted: Callable[[Config], float], seed: int = 7
    ) -> None:
        super().__init__(in_predicted_order(space, predicted))
        self._by_genes = {_genes(config): config for config in self._untried}
        self._pool = list(self._untried)
        self._seed = seed
        self._observed: list[tuple[float, int, Config]] = []

    def propose(self, count: int) -> list[Config]:
        if count < 1:
            return []
        children = self._children(count)
        rest = [config for config in self._untried if config not in children]
        return [*children, *rest][:count]

    def observe(self, config: Config, seconds: float) -> None:
        super().observe(config, seconds)
        if seconds < math.inf:
            self._observed.append((seconds, len(self._observed), config))

    def _children(self, count: int) -> dict[Config, None]:
        parents = [config for _, _, config in sorted(self._observed)[:PARENTS]]
        if len(parents) < 2:
            return {}
        # Drawn anew from what was observed: asking twice gives the same answer twice.
        chance = random.Random(f"{self._seed} {len(self._observed)}")
        left = set(self._untried)
        found: dict[Config, None] = {}
        for _ in range(CROSSINGS):
            if len(found) >= count:
                break
            child = self._child(chance, *chance.sample(parents, 2))
            if child in left:
                found[child] = None
        return found

    def _child(self, chance: random.Random, one: Config, other: Config) -> Config | None:
        """A config of one parent's template; ``None`` where the crossing left the space."""
        theirs = knobs(other) if other.template == one.template else {}
        stranger = knobs(chance.choice(self._pool))
        genes = {}
        for name, value in knobs(one).items():
            genes[name] = theirs.get(name, value) if chance.random() < 0.5 else value
            if chance.random() < MUTATION:
                genes[name] = stranger.get(name, genes[name])
        return self._by_genes.get((one.template, tuple(genes.items())))


def _genes(config: Config) -> Genes:
    return config.template, tuple(knobs(config).items())
