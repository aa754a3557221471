"""The fp32 model that is quantised: batch norms folded, constants computed, names and types known.

ONNX Runtime's basic optimisations do it: they keep to standard ONNX, and fold batch norms and
scalings of channels into convolutions and dense layers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from onnx import shape_inference, version_converter

from tvm_neocpu.core.errors import ModelFileError, NeoCpuError, first_line
from tvm_neocpu.frontend.nodes import all_nodes, opset_of
from tvm_neocpu.frontend.rewriting.inline_functions import without_functions
from tvm_neocpu.frontend.rewriting.onnx_runtime_nodes import in_standard_nodes
from tvm_neocpu.frontend.rewriting.single_precision import in_single_precision
from tvm_neocpu.quantizing.onnx_runs import runtime
from tvm_neocpu.quantizing.rewriting.plain_gemms import with_plain_gemms

# DequantizeLinear knows scales for each channel from here on.
OLDEST_OPSET = 13
_INTEGER = ("QLinear", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
_INTEGER_ENDS = ("Integer",)


def prepare(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model in fp32 of opset 13 or later with its batch norms folded; types are inferred.

    Raises ModelFileError for a model that is quantised already, NeoCpuError where ONNX Runtime
    cannot load it.
    """
    _refuse_quantised(model, name)
    model = without_functions(model)
    model = _of_new_opset(in_standard_nodes(in_single_precision(model)), name)
    model = with_plain_gemms(_folded(model, name))
    return shape_inference.infer_shapes(_named(model))


def _refuse_quantised(model: onnx.ModelProto, name: str) -> None:
    for node in all_nodes(model.graph):
        if node.op_type.startswith(_INTEGER) or node.op_type.endswith(_INTEGER_ENDS):
            raise ModelFileError(
                f"{name} is quantised already: it has a {node.op_type} ({node.name or 'unnamed'})"
            )


def _of_new_opset(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    opset = opset_of(model)
    if opset >= OLDEST_OPSET:
        return model
    try:
        return version_converter.convert_version(model, OLDEST_OPSET)
    except Exception as error:  # the converter's exceptions have no common class
        raise NeoCpuError(
            f"{name} is of opset {opset}, and onnx cannot make opset {OLDEST_OPSET} of it: "
            f"{first_line(error)}"
        ) from error


def _folded(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """What ONNX Runtime's basic optimisations leave of the model."""
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(path)
        try:
            ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exceptions have no common class
            raise NeoCpuError(f"ONNX Runtime cannot load {name}: {first_line(error)}") from error
        folded = onnx.load(str(path))
    _keep_used_domains(folded)
    return folded


def _keep_used_domains(model: onnx.ModelProto) -> None:
    """ONNX Runtime lists every domain that it knows; other engines refuse some of them."""
    used = {node.domain for node in all_nodes(model.graph)} | {""}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    versions = [(entry.domain, entry.version) for entry in kept]
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(*pair) for pair in versions)


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """Every operation gets a name of its own, by which it can be excluded."""
    taken: set[str] = set()
    for place, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{place}"
        while name in taken:
            name = f"{name}_{place}"
        taken.add(name)
        node.name = name
    return model
