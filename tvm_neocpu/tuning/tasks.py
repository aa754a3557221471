"""From a conv graph to tuning tasks: one per distinct workload, none tuned twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.table import space_of
from tvm_neocpu.tuning.task import Task


def tasks_of(graph: ConvGraph, cpu: Cpu) -> tuple[Task, ...]:
    """The graph's workloads with their whole spaces and how often each occurs."""
    occurrences = Counter(node.workload for node in graph.convs if node.workload is not None)
    return tuple(_task(workload, cpu, count) for workload, count in occurrences.items())


def transform_tasks(moves: Iterable[TransformWorkload], cpu: Cpu) -> tuple[Task, ...]:
    """One task for each layout transform; its only config is measured once."""
    return tuple(_task(move, cpu, 1) for move in moves)


def _task(workload: Workload, cpu: Cpu, occurrences: int) -> Task:
    return Task(
        name=str(workload),
        workload=workload,
        space=space_of(workload, cpu),
        predicted=partial(_predict, workload, cpu),
        build=partial(build_kernel, workload, cpu),
        occurrences=occurrences,
    )


def build_kernel(workload: Workload, cpu: Cpu, config: Config) -> Any:
    """The scheduled kernel of a candidate; called in a worker process."""
    from tvm_neocpu.topi.kernel import kernel

    return kernel(workload, config, cpu)


def _predict(workload: Workload, cpu: Cpu, config: Config) -> float:
    return predict_seconds(workload, config, cpu)
