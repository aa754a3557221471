"""Rank correlation and regret of the cost model, by layer, by operator and by network.

*Regret* is what the model's choice takes over what the best known config takes, both measured: 1 is
perfect, 1.10 loses 10 %. The choice is made among the configs that the log has times of; so a log
of few configs flatters the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from scipy.stats import spearmanr

from tvm_neocpu.contrib.cost_model.readings import Layer, kind_of
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.ranking import predict_seconds

Predict = Callable[[Workload, Config, Cpu], float]


@dataclass(frozen=True)
class Judged:
    """A layer's readings beside the model's predictions of them."""

    layer: Layer
    predicted: tuple[float, ...]

    @property
    def chosen(self) -> int:
        """The index of the config that the model likes best."""
        return min(range(len(self.predicted)), key=self.predicted.__getitem__)

    @property
    def chosen_seconds(self) -> float:
        return self.layer.seconds[self.chosen]

    @property
    def regret(self) -> float:
        return self.chosen_seconds / self.layer.best

    @cached_property
    def layout_regret(self) -> float:
        """The mean over pairs of layouts of the regret within them: the search chooses layouts."""
        groups: dict[object, list[int]] = {}
        for index, config in enumerate(self.layer.configs):
            groups.setdefault(layouts_of(config), []).append(index)
        seconds = self.layer.seconds
        return fmean(
            seconds[min(group, key=self.predicted.__getitem__)] / seconds[group[0]]
            for group in groups.values()
        )

    @cached_property
    def rank(self) -> float:
        """Spearman's correlation; 0 where all predictions are equal."""
        if len(set(self.predicted)) == 1 or len(set(self.layer.seconds)) == 1:
            return 0.0
        return float(spearmanr(self.predicted, self.layer.seconds).statistic)


@dataclass(frozen=True)
class Summary:
    """Several layers: ``regret`` weighs them by their time, the other two count them alike."""

    layers: int
    configs: int
    rank: float
    regret: float
    layout_regret: float


@dataclass(frozen=True)
class NetworkSummary:
    """A network's known layers, each as often as it occurs; ``covered`` of its layers are known.

    ``chosen`` and ``best`` are seconds of a run of those, without transforms.
    """

    name: str
    threads: int
    covered: int
    layers: int
    chosen: float
    best: float

    @property
    def regret(self) -> float:
        return self.chosen / self.best


def judge(layers: Iterable[Layer], predict: Predict = predict_seconds) -> tuple[Judged, ...]:
    """Predictions for every reading."""
    return tuple(
        Judged(layer, tuple(predict(layer.workload, config, layer.cpu) for config in layer.configs))
        for layer in layers
    )


def summary(judged: Sequence[Judged]) -> Summary:
    """At least one layer, summed up."""
    return Summary(
        len(judged),
        sum(len(each.predicted) for each in judged),
        fmean(each.rank for each in judged),
        sum(each.chosen_seconds for each in judged) / sum(each.layer.best for each in judged),
        fmean(each.layout_regret for each in judged),
    )


def by_kind(judged: Iterable[Judged]) -> dict[tuple[str, int], Summary]:
    """(kind, threads) -> its layers summed up."""
    groups: dict[tuple[str, int], list[Judged]] = {}
    for each in judged:
        key = kind_of(each.layer.workload), each.layer.cpu.cores
        groups.setdefault(key, []).append(each)
    return {key: summary(groups[key]) for key in sorted(groups)}


def network_summary(
    name: str, threads: int, counts: Mapping[Workload, int], judged: Iterable[Judged]
) -> NetworkSummary | None:
    """A network whose workloads occur so often; ``None`` if none of them is known."""
    known = {e.layer.workload: e for e in judged if e.layer.cpu.cores == threads}
    found = {workload: count for workload, count in counts.items() if workload in known}
    if not found:
        return None
    return NetworkSummary(
        name,
        threads,
        sum(found.values()),
        sum(counts.values()),
        sum(count * known[workload].chosen_seconds for workload, count in found.items()),
        sum(count * known[workload].layer.best for workload, count in found.items()),
    )
