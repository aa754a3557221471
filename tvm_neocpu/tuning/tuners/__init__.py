"""Tuners propose and observe; they never measure. ``TUNERS`` lists them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners.base import Tuner
from tvm_neocpu.tuning.tuners.genetic import GeneticTuner
from tvm_neocpu.tuning.tuners.grid import GridTuner
from tvm_neocpu.tuning.tuners.learned import LearnedTuner
from tvm_neocpu.tuning.tuners.random import RandomTuner
from tvm_neocpu.tuning.tuners.ranker import Ranker
from tvm_neocpu.tuning.tuners.xgb import XGBTuner

# A function that makes the tuner of one task of a session.
TunerFactory = Callable[[Task], Tuner]


def learned(tasks: Sequence[Task], seed: int, ranker: Ranker | None = None) -> TunerFactory:
    """Tuners that share a ranker: what one task teaches, the others know."""
    shared = ranker or Ranker([(task.workload, task.space) for task in tasks])
    return lambda task: LearnedTuner(
        task.workload, task.space, task.predicted, shared, task.favoured
    )


# Name -> a function of a session's tasks and a seed. The first is the default.
TUNERS: dict[str, Callable[[Sequence[Task], int], TunerFactory]] = {
    "learned": learned,
    "grid": lambda tasks, seed: lambda task: GridTuner(task.space, task.predicted),
    "random": lambda tasks, seed: lambda task: RandomTuner(task.space, seed),
    "xgb": lambda tasks, seed: lambda task: XGBTuner(task.space, task.predicted, seed),
    "genetic": lambda tasks, seed: lambda task: GeneticTuner(task.space, task.predicted, seed),
}

__all__ = ["TUNERS", "Ranker", "Tuner", "TunerFactory", "learned"]
