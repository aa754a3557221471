"""Write the QDQ model: u8 activations, symmetric s8 weights, s32 biases.

ONNX Runtime's writer does it. A ReLU or a clip behind a quantised layer disappears into the
range of the layer's output.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import onnx

from tvm_neocpu.core.errors import NeoCpuError, first_line
from tvm_neocpu.frontend.nodes import all_nodes
from tvm_neocpu.quantizing.calibration.range_methods import Range
from tvm_neocpu.quantizing.onnx_graphs import copy_of, output_names, readers_of
from tvm_neocpu.quantizing.onnx_runs import runtime
from tvm_neocpu.quantizing.rewriting.choose_nodes import ABSORBED, LAYERS
from tvm_neocpu.quantizing.rewriting.fit_sums import fit_sums

# Layers whose engines give fp32 results of integer operands without a detour.
_DENSE = ("Gemm", "MatMul")
# Weights whose products with bytes fit 16 bits in pairs.
SMALL_BITS = 7


def write_qdq(
    model: onnx.ModelProto,
    ranges: Mapping[str, Range],
    chosen: Collection[str],
    per_channel: bool,
    wide_results: bool = False,
    weight_bits: int = 8,
) -> onnx.ModelProto:
    """The model with these operations in int8; ``ranges`` knows every activation of theirs.

    A dense layer's result that nothing in int8 reads stays fp32; with ``wide_results`` a
    convolution's, too. Raises NeoCpuError where ONNX Runtime cannot write it.
    """
    if not chosen:
        return copy_of(model)
    runtime()
    from onnxruntime.quantization import CalibrationMethod, QuantType
    from onnxruntime.quantization.calibrate import TensorData, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    known = {
        name: TensorData(lowest=np.float32(kept.low), highest=np.float32(kept.high))
        for name, kept in ranges.items()
    }
    wide = always_wide(wide_results)
    chosen = set(chosen) - _last_activations(model.graph, chosen, wide)
    chosen -= _activations_beside_others(model.graph)
    nodes = [node for node in model.graph.node if node.name in chosen]
    with _quiet():
        quantizer = QDQQuantizer(
            copy_of(model),
            per_channel,
            weight_bits == SMALL_BITS,
            QuantType.QInt8,
            QuantType.QUInt8,
            TensorsData(CalibrationMethod.MinMax, known),
            [node.name for node in nodes],
            [],
            sorted({node.op_type for node in nodes}),
            {},
        )
        try:
            written: onnx.ModelProto = quantizer.quantize_model()
            quantizer.model.topological_sort()
        except Exception as error:  # its exceptions have no common class: KeyError, AssertionError
            raise NeoCpuError(
                "ONNX Runtime's quantiser cannot write this network: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
    _drop_round_trips(written, chosen, wide)
    if weight_bits == SMALL_BITS:
        written = fit_sums(written)
    written.producer_name, written.producer_version = "tvm_neocpu", ""
    return written


def always_wide(wide_results: bool) -> Collection[str]:
    """The operators whose results are rounded only where something in int8 reads them."""
    return LAYERS if wide_results else _DENSE


def pairs_of(graph: onnx.GraphProto) -> dict[str, tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Tensor -> the Q that reads it and that Q's DQ."""
    readers = readers_of(graph)
    return {
        node.input[0]: (node, readers[node.output[0]][0])
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    }


def _last_activations(
    graph: onnx.GraphProto, chosen: Collection[str], operators: Collection[str]
) -> set[str]:
    """ReLUs and clips behind these operators that nothing in int8 reads.

    Their layer's result loses its Q and DQ, and they would be lost with these.
    """
    readers = readers_of(graph)
    wide = {name for node in graph.node if node.op_type in operators for name in node.output}
    return {
        node.name
        for node in graph.node
        if node.op_type in ABSORBED
        and node.input[0] in wide
        and not any(reader.name in chosen for reader in readers.get(node.output[0], []))
    }


def _activations_beside_others(graph: onnx.GraphProto) -> set[str]:
    """ReLUs and clips of a result that something else reads, or that is an output.

    They would disappear into its range, which the others need as it is.
    """
    readers, outputs = readers_of(graph), {value.name for value in graph.output}
    return {
        node.name
        for node in graph.node
        if node.op_type in ABSORBED
        and (len(readers[node.input[0]]) > 1 or node.input[0] in outputs)
    }


def _drop_round_trips(
    model: onnx.ModelProto, chosen: Collection[str], operators: Collection[str]
) -> None:
    """Take Q and DQ from these operators' results if nothing in int8 reads them.

    Their steps would make a classifier's scores equal that are not.
    """
    graph = model.graph
    readers = readers_of(graph)
    outputs = set(output_names(model))
    makers = {
        name: node for node in graph.node for name in node.output if node.op_type in operators
    }
    steps: set[str] = set()
    for tensor, (q, dq) in pairs_of(graph).items():
        (result,) = dq.output
        followers = readers.get(result, [])
        if tensor not in makers or any(node.name in chosen for node in followers):
            continue
        gone, kept = (tensor, result) if result in outputs else (result, tensor)
        makers[tensor].output[0] = kept
        for node in (*followers, *readers[tensor]):
            node.input[:] = [kept if name == gone else name for name in node.input]
        graph.node.remove(q)
        graph.node.remove(dq)
        steps |= {*q.input[1:], *dq.input[1:]}
    # ONNX Runtime warns of initialisers that nothing reads.
    unread = steps - outputs - {name for node in all_nodes(graph) for name in node.input}
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name in unread:
            del graph.initializer[place]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The writer logs advice to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
