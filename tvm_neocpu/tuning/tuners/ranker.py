"""One model of where the cost model errs, learned across workloads and networks of a CPU.

Boosted trees (XGBoost) over the knobs, the workload's sizes and the predicted time give the log of
measured over predicted seconds. What all configs of a workload have in common says nothing about
which is best, so it is taken out before training and added again from the workload's own
measurements. So a network that was never tuned starts with what others taught.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.tuners.features import (
    feature_names,
    feature_vector,
    workload_names,
    workload_vector,
)

# Fewer rows than this teach nothing; the trees are grown again when a tenth of the rows is new.
ENOUGH, NEWS = 24, 0.1
# The typical error of a log-time before anything is known of it, and the bounds of what is learned.
FIRST_SIGMA, MIN_SIGMA, MAX_SIGMA = 0.10, 0.015, 0.30
# As many latest errors say how far the next prediction may be off.
MEMORY = 120
ROUNDS = 80
_TREES = {"max_depth": 6, "eta": 0.15, "subsample": 0.9, "nthread": 1, "verbosity": 0, "seed": 7}

Floats = NDArray[Any]


@dataclass
class _Row:
    features: Floats
    error: float  # log(measured / predicted)


@dataclass
class Ranker:
    """Learns from :meth:`learn`; :meth:`errors` are its guesses for configs of one workload.

    ``space`` are samples of what it will meet, for the columns of its table: (workload, configs).
    """

    space: Sequence[tuple[Workload, Sequence[Config]]]
    _rows: dict[Workload, list[_Row]] = field(default_factory=dict)
    _misses: list[float] = field(default_factory=list)
    _model: Any = None
    _count: int = 0
    _trained: int = 0

    def __post_init__(self) -> None:
        configs: Iterable[Config] = (config for _, found in self.space for config in found)
        self._knobs = feature_names(configs)
        self._sizes = workload_names(workload for workload, _ in self.space)

    @property
    def version(self) -> int:
        """Changes whenever the trees do; 0 before there are any."""
        return self._trained

    @property
    def sigma(self) -> float:
        """The typical error of a guessed log-time, for a config near one that was measured."""
        if len(self._misses) < ENOUGH // 2:
            return FIRST_SIGMA
        latest = self._misses[-MEMORY:]
        # Robust: a few candidates that spill registers are off by a factor of two.
        return min(MAX_SIGMA, max(MIN_SIGMA, 1.4826 * median(map(abs, latest))))

    def distances(self, workload: Workload, features: Floats) -> Floats:
        """In how many knobs each row differs from the nearest that was measured, at least 1.

        All are 1 before there are trees: guesses are the cost model's then.
        """
        alike = self._rows.get(workload)
        if not alike or self._model is None or not len(features):
            return np.ones(len(features))
        count = len(self._knobs)
        # A knob that neither template has is alike, and NaN is not equal to NaN.
        ours, known = (
            np.nan_to_num(rows[:, :count], nan=-1.0)
            for rows in (features, np.array([row.features for row in alike]))
        )
        differ = (ours[:, None, :] != known[None]).sum(axis=-1).min(axis=1)
        return np.asarray(np.maximum(1, differ), np.float64)

    def spreads(self, workload: Workload, features: Floats) -> Floats:
        """The typical error of each guess, for rows of :meth:`features`.

        Guesses err more the farther a config is from those that were measured: on the logs of
        `tests/tuning/test_replay.py` by 0.07, 0.11, 0.13, 0.21 and 0.27 where 1 to 5 knobs differ
        (ResNet-50), by 0.16, 0.18 and 0.30 where 1 to 3 do (MobileNet-v2).
        """
        return self.sigma * self.distances(workload, features)

    def features(
        self, workload: Workload, configs: Sequence[Config], predicted: Sequence[float]
    ) -> Floats:
        """One row for each config; ``predicted`` are positive seconds."""
        sizes = workload_vector(workload, self._sizes)
        rows = [
            [*feature_vector(config, self._knobs), *sizes, math.log(seconds)]
            for config, seconds in zip(configs, predicted, strict=True)
        ]
        width = len(self._knobs) + len(sizes) + 1
        return np.array(rows, np.float32).reshape(len(rows), width)

    def learn(self, workload: Workload, config: Config, predicted: float, seconds: float) -> None:
        """Take in a measurement that worked; both times in seconds."""
        if not (0 < predicted < math.inf and 0 < seconds < math.inf):
            return
        features = self.features(workload, [config], [predicted])
        error = math.log(seconds / predicted)
        if workload in self._rows:
            miss = error - float(self.errors(workload, features)[0])
            self._misses.append(miss / float(self.distances(workload, features)[0]))
        self._rows.setdefault(workload, []).append(_Row(features[0], error))
        self._count += 1
        if self._count >= max(ENOUGH, self._trained * (1 + NEWS)):
            self._train()

    def errors(self, workload: Workload, features: Floats) -> Floats:
        """The log of true over predicted seconds, guessed, for rows of :meth:`features`."""
        if self._model is None:
            return np.full(len(features), self.common_error(workload))
        alike = self._rows.get(workload, [])
        if not len(features):
            return np.zeros(0)
        guesses = self._guess(features)
        if alike:
            mine = self._guess(np.array([row.features for row in alike]))
            guesses += fmean(row.error - guess for row, guess in zip(alike, mine, strict=True))
        return guesses

    def common_error(self, workload: Workload) -> float:
        """The mean of what was measured of the workload, as the log of true over predicted."""
        alike = self._rows.get(workload)
        return fmean(row.error for row in alike) if alike else 0.0

    def _train(self) -> None:
        # Imported here: it is slow to import, and most commands never tune.
        import xgboost

        rows: list[Floats] = []
        labels: list[float] = []
        for alike in self._rows.values():
            common = median(row.error for row in alike)
            rows += [row.features for row in alike]
            labels += [row.error - common for row in alike]
        data = xgboost.DMatrix(np.array(rows), label=np.array(labels))
        self._model = xgboost.train(_TREES, data, num_boost_round=ROUNDS)
        self._trained = self._count

    def _guess(self, features: Floats) -> Floats:
        return np.asarray(self._model.inplace_predict(features), np.float64)
