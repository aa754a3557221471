"""Boosted trees learn where the cost model errs (AutoTVM's XGBTuner, with the model as prior)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.tuning.tuners.base import FadingTuner, in_predicted_order
from tvm_neocpu.tuning.tuners.features import feature_names, feature_vector

# With fewer observations than this the cost model's own order is the better guess.
WARM_UP = 12
BOOSTING_ROUNDS = 60
# A failure counts as this multiple of the slowest candidate that worked.
FAILURE = 4.0
_TREES = {"max_depth": 5, "eta": 0.2, "nthread": 1, "verbosity": 0}


class XGBTuner(FadingTuner):
    """Ranks the space by the prediction times a learned correction; explores epsilon-greedily.

    ``epsilon`` is the share of each batch that is drawn at random. Equal seeds and observations
    give equal proposals.
    """

    def __init__(
        self,
        space: Sequence[Config],
        predicted: Callable[[Config], float],
        seed: int = 7,
        epsilon: float = 0.1,
    ) -> None:
        super().__init__(in_predicted_order(space, predicted))
        self._predicted = predicted
        self._names = feature_names(self._untried)
        self._seed = seed
        self._epsilon = epsilon
        self._random = random.Random(seed)
        self._observed: dict[Config, float] = {}

    def propose(self, count: int) -> list[Config]:
        if not self._untried or count < 1:
            return []
        ranked = self._ranked()
        explored = min(sum(self._random.random() < self._epsilon for _ in range(count)), count - 1)
        chosen = ranked[: count - explored]
        rest = ranked[count - explored :]
        return chosen + self._random.sample(rest, min(explored, len(rest)))

    def observe(self, config: Config, seconds: float) -> None:
        super().observe(config, seconds)
        self._observed[config] = seconds if seconds > 0 else math.inf

    def _ranked(self) -> list[Config]:
        """The untried configs, the fastest estimate first."""
        configs = list(self._untried)
        worked = [seconds for seconds in self._observed.values() if math.isfinite(seconds)]
        if len(self._observed) < WARM_UP or not worked:
            return configs
        scores = self._prior(configs) + self._correction(configs, FAILURE * max(worked))
        return [configs[index] for index in np.argsort(scores, kind="stable")]

    def _correction(self, configs: list[Config], failure: float) -> np.ndarray:
        """The learned log of measured over predicted seconds."""
        # Imported here: it is slow to import, and the other tuners do not need it.
        import xgboost

        tried = list(self._observed)
        measured = np.log([min(self._observed[config], failure) for config in tried])
        data = xgboost.DMatrix(self._features(tried), label=measured - self._prior(tried))
        model = xgboost.train({**_TREES, "seed": self._seed}, data, num_boost_round=BOOSTING_ROUNDS)
        return np.asarray(model.predict(xgboost.DMatrix(self._features(configs))))

    def _features(self, configs: list[Config]) -> np.ndarray:
        vectors = np.array([feature_vector(config, self._names) for config in configs])
        return np.column_stack([vectors, self._prior(configs)])

    def _prior(self, configs: list[Config]) -> np.ndarray:
        """Log of the predicted seconds; 1000 s where the prediction is not a positive time."""
        seconds = [self._predicted(config) for config in configs]
        return np.log([s if 0 < s < math.inf else 1e3 for s in seconds])
