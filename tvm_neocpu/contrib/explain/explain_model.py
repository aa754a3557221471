"""A model explained: folded as a build would, its choices, its nodes by their ONNX names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx

from tvm_neocpu.choose_plan import choose_plans
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork, explain_network
from tvm_neocpu.contrib.explain.notes import notes_of
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.batches.outline_rows import outline_rows
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.relay_passes.lowering.waking_threads import SAID
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.tuning.database.history import current_history


def explain_model(
    name: str, model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], cpu: Cpu
) -> ExplainedNetwork:
    """What a build of the model would choose now, from the logs in force; nothing is built."""
    mod, _ = from_onnx(model, shapes)
    with PYTHON_LOCK:
        outlined = outline_rows(fold(mod, cpu), "rows")
    graph, coverage = ExtractConvGraph(cpu)(outlined.mod), FindFallbacks(cpu)(outlined.mod)
    history = current_history(cpu)
    notes = notes_of(outlined.mod, outlined.rows, cpu, coverage)
    chosen = choose_plans(outlined.mod, graph, coverage, cpu, history)
    if chosen.alone is not None:
        cpu, notes = cpu.with_cores(1), (*notes, SAID)
    network = explain_network(name, graph, cpu, chosen.history, coverage)
    names = OnnxNodes(model, shapes).names_of(
        (node.workload for node in graph.nodes), changed_by_passes=True
    )
    ids = (node.id for node in graph.nodes)
    named = dict(filter(all, zip(ids, names, strict=True)))
    return replace(network, names=named, notes=notes)
