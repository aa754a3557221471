"""Tuners propose and observe; they never measure. ``TUNERS`` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners.base import Tuner
from tvm_neocpu.tuning.tuners.grid import GridTuner
from tvm_neocpu.tuning.tuners.random import RandomTuner
from tvm_neocpu.tuning.tuners.xgb import XGBTuner

# Name -> a function that makes the tuner from a task and a seed. The first is the default.
TUNERS: dict[str, Callable[[Task, int], Tuner]] = {
    "grid": lambda task, seed: GridTuner(task.space, task.predicted),
    "random": lambda task, seed: RandomTuner(task.space, seed),
    "xgb": lambda task, seed: XGBTuner(task.space, task.predicted, seed),
}

__all__ = ["TUNERS", "GridTuner", "RandomTuner", "Tuner", "XGBTuner"]
