"""Trained CNNs in bf16: RapidOCR's recogniser reads what fp32 reads.

ONNX Runtime computes with numbers that are rounded as a build rounds them: weights alone where bf16
is for storage, data too where an instruction multiplies them.
"""

from __future__ import annotations

import ml_dtypes
import onnx
import pytest
from ocr import (
    READ,
    line_samples,
    lines_to_read,
    page,
    reader,
    texts_of,
    without_blanks,
)
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu.core.accuracy.precision import request_of
from tvm_neocpu.precision.choose import choose_precision
from tvm_neocpu.quantizing.onnx_graphs import weights_of
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import layers_of
from tvm_neocpu.quantizing.rewriting.prepare import prepare
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import current_history


def in_bf16(model: onnx.ModelProto, data: bool) -> onnx.ModelProto:
    """Weights of all layers rounded but depthwise ones, batch norms folded before; and data."""
    ready = prepare(model, "the recogniser")
    graph = ready.graph
    weights = weights_of(graph)
    layers = [layer for layer in layers_of(graph) if not is_depthwise(layer)]
    for name in {layer.input[1] for layer in layers}:
        values = numpy_helper.to_array(weights[name]).astype(ml_dtypes.bfloat16)
        weights[name].CopyFrom(numpy_helper.from_array(values.astype("float32"), name))
    if not data:
        return ready
    names, nodes = {layer.name for layer in layers}, list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.name in names:
            narrow, wide = f"{node.name}.narrow", f"{node.name}.wide"
            to_bf16, to_fp32 = TensorProto.BFLOAT16, TensorProto.FLOAT
            graph.node.append(helper.make_node("Cast", [node.input[0]], [narrow], to=to_bf16))
            graph.node.append(helper.make_node("Cast", [narrow], [wide], to=to_fp32))
            node.input[0] = wide
        graph.node.append(node)
    return ready


def is_depthwise(layer: onnx.NodeProto) -> bool:
    """No template computes these in bf16."""
    groups = [each.i for each in layer.attribute if each.name == "group"]
    return bool(groups) and groups[0] > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "at_least"), [(False, 100), (True, 99)], ids=["storage", "arithmetic"]
)
def test_lines_are_read_alike(data: bool, at_least: int) -> None:
    """What may differ are blanks."""
    engine = reader(ours=False)
    run = runner(in_bf16(onnx.load(READ), data))
    images = lines_to_read()
    wanted = texts_of(engine, engine.text_rec.session, images)
    found = texts_of(engine, lambda image: run({"x": image}), images)
    same = sum(one == other for one, other in zip(wanted, found, strict=True))
    assert same >= at_least
    assert without_blanks(found) == without_blanks(wanted)
    assert sum(map(bool, wanted)) > 90


@pytest.mark.slow
def test_a_bound_leaves_sensitive_layers_in_fp32() -> None:
    """All of the hundred strings then, on a CPU that multiplies in bf16; Conv.14 makes most noise.

    It is the 1x1 convolution in the middle of the backbone whose rounding flips a class.
    """
    engine = reader(ours=False)
    samples = line_samples(engine, 320)
    cpu = parse_target("llvm -mcpu=znver4 -num-cores=1").cpu
    request = request_of("bf16", None, samples)
    assert request is not None
    shapes = {"x": samples[0]["x"].shape}
    chosen = choose_precision(onnx.load(READ), shapes, request, cpu, current_history(cpu))
    layers = chosen.report.layers
    assert layers["p2o.Conv.14"].precision == "fp32"
    assert max(layers, key=lambda name: layers[name].halves.get("bf16", 0)) == "p2o.Conv.14"
    assert chosen.report.share_of("bf16") > 0.5
    run = runner(chosen.exact)
    images = lines_to_read()
    wanted = texts_of(engine, engine.text_rec.session, images)
    assert texts_of(engine, lambda image: run({"x": image}), images) == wanted


@pytest.mark.slow
def test_our_build_reads_a_line() -> None:
    image = page([("Convolution", "", 32)], 240, 60)
    ((text, _),) = reader(ours=True, precision="bf16")(image, use_det=False, use_cls=False)[0]
    assert text.strip() == "Convolution"
