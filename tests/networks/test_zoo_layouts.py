"""Whole networks of the zoo, altered but not compiled: how many transforms are left of them."""

from __future__ import annotations

import pytest
import tvm
from tvm.relax.frontend.onnx import from_onnx

from tvm_neocpu.choose_plan import search_plan
from tvm_neocpu.contrib.model_zoo import build
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph, NodeKind
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.pipeline import apply_plan, fold
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.alter_op_layout import AlterOpLayout
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.tuning.database.history import History

CPU = Cpu("skylake-avx512", AVX512, cores=2)


@pytest.fixture(scope="module")
def resnet50() -> tvm.IRModule:
    return fold(from_onnx(build("resnet50")), CPU)


def equal_blocks(workload: Workload) -> Config:
    if isinstance(workload, ConvWorkload):
        return ConvConfig(16 if workload.in_channels > 4 else 0, 16, reg_n=1)
    return DenseConfig(16)


def plan_of_blocks(graph: ConvGraph, block: int) -> Plan:
    joins = [node.id for node in graph.nodes if node.kind is NodeKind.JOIN]
    configs = {node.id: equal_blocks(node.workload) for node in graph.convs}
    return Plan(graph.hash, configs, dict.fromkeys(joins, Layout(block)))


def test_equal_blocks_leave_resnet50_without_a_transform(resnet50: tvm.IRModule) -> None:
    """The stem reads the plain image, and the pooled pixel after the last block moves for free."""
    graph = ExtractConvGraph(CPU)(resnet50)
    assert (len(graph.convs), len(graph.joins)) == (54, 16)
    altered = apply_plan(resnet50, plan_of_blocks(graph, 16), CPU)
    assert count_transforms(altered) == 0


def test_an_unequal_join_costs_its_transforms(resnet50: tvm.IRModule) -> None:
    """Each of sixteen sums reads and writes another layout than its neighbours."""
    graph = ExtractConvGraph(CPU)(resnet50)
    altered = AlterOpLayout(plan_of_blocks(graph, 32), CPU)(resnet50)
    # Into every sum one branch and four projections (the other shortcuts are sums themselves), and
    # out of every sum but the last, which is pooled; convolutions that read one sum share that.
    assert count_transforms(altered) == 16 + 4 + 15


def test_the_search_finds_a_plan_with_hardly_a_transform(resnet50: tvm.IRModule) -> None:
    graph = ExtractConvGraph(CPU)(resnet50)
    plan = search_plan(graph, CPU, History(CPU.name, CPU.cores))
    assert plan.optimal
    assert count_transforms(apply_plan(resnet50, plan, CPU)) <= 4
