"""A graph of one convolution and its plan; a template that comes from outside the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from small_logs import A

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import register_implementation, unregister_implementation
from tvm_neocpu.tuning.database.folders import log_folders


@pytest.fixture
def no_shipped_logs(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(log_folders, "PACKAGE", tmp_path / "nowhere")
    monkeypatch.delenv(log_folders.LOGS_VARIABLE, raising=False)


@pytest.fixture
def graph(conv: ConvWorkload) -> ConvGraph:
    return ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), conv),), ())


@pytest.fixture
def plan(graph: ConvGraph) -> Plan:
    return Plan(graph.hash, {"a": A})


@dataclass(frozen=True)
class FancyConfig:
    """Knobs that AutoTVM never heard of, beside blocks."""

    template: ClassVar[str] = "conv2d_fancy"

    ic_bn: int
    oc_bn: int
    fold: bool = True


@pytest.fixture
def fancy() -> Implementation:
    """Of conv2d; not registered. Any of its configs fits, none has AutoTVM's names."""
    return replace(
        DIRECT,
        name=FancyConfig.template,
        config_type=FancyConfig,
        misfit=lambda conv, config: None,
        classic=(),
    )


@pytest.fixture
def registered() -> Callable[[Implementation], AbstractContextManager[None]]:
    """``with registered(implementation):`` conv2d has one more inside."""

    @contextmanager
    def inside(implementation: Implementation) -> Iterator[None]:
        register_implementation("conv2d", implementation)
        try:
            yield
        finally:
            unregister_implementation(implementation.name)

    return inside
