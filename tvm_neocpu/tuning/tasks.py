"""From a conv graph to tuning tasks: one per distinct workload, none tuned twice."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import cloudpickle

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.cost.ranking import Predictions, favoured_of
from tvm_neocpu.topi.table import Brought, bring, brought, space_of
from tvm_neocpu.tuning.task import Task

Result = TypeVar("Result")


def tasks_of(graph: ConvGraph, cpu: Cpu) -> tuple[Task, ...]:
    """The graph's workloads with their whole spaces and how often each occurs."""
    occurrences = Counter(node.workload for node in graph.convs if node.workload is not None)
    return tuple(task_of(workload, cpu, count) for workload, count in occurrences.items())


def task_of(workload: Workload, cpu: Cpu, occurrences: int = 1) -> Task:
    """The task of one workload: its whole space."""
    space = space_of(workload, cpu)
    return Task(
        name=str(workload),
        workload=workload,
        space=space,
        favoured=tuple(favoured_of(workload, space, cpu)),
        predicted=Predictions(workload, cpu),
        build=partial(build_kernel, workload, cpu, _sent_by_value(brought())),
        occurrences=occurrences,
    )


def build_kernel(workload: Workload, cpu: Cpu, others: Brought, config: Config) -> Any:
    """The scheduled kernel of a candidate; called in a worker process.

    ``others`` are the operators and implementations that the worker does not know by itself.
    """
    from tvm_neocpu.topi.kernel import kernel

    bring(others)
    return kernel(workload, config, cpu)


def with_operators(call: Callable[[], Result]) -> Callable[[], Result]:
    """The same call for another process, which learns first what was registered in this one."""
    return partial(_bring_and_call, _sent_by_value(brought()), call)


def _bring_and_call(others: Brought, call: Callable[[], Result]) -> Result:
    bring(others)
    return call()


def _sent_by_value(others: Brought) -> Brought:
    """The same; cloudpickle sends the modules that they come from along.

    A worker may not find these modules: they can be scripts, or lie on this process's path only.
    """
    for operator, entries in others:
        kinds = [operator.workload_type, *(entry.config_type for entry in entries)]
        for name in {kind.__module__ for kind in kinds}:
            if not name.startswith("tvm_neocpu.") and name in sys.modules:
                cloudpickle.register_pickle_by_value(sys.modules[name])
    return others
