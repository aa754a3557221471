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

from tvm_neocpu.contrib.quantizing.calibration.range_methods import Range
from tvm_neocpu.contrib.quantizing.onnx_graphs import copy_of, output_names, readers_of
from tvm_neocpu.contrib.quantizing.onnx_runs import runtime

_DENSE = ("Gemm", "MatMul")


def write_qdq(
    model: onnx.ModelProto, ranges: Mapping[str, Range], chosen: Collection[str], per_channel: bool
) -> onnx.ModelProto:
    """The model with these operations in int8; ``ranges`` knows every activation of theirs."""
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
    nodes = [node for node in model.graph.node if node.name in chosen]
    with _quiet():
        quantizer = QDQQuantizer(
            copy_of(model),
            per_channel,
            False,  # all eight bits of a weight
            QuantType.QInt8,
            QuantType.QUInt8,
            TensorsData(CalibrationMethod.MinMax, known),
            [node.name for node in nodes],
            [],
            sorted({node.op_type for node in nodes}),
            {},
        )
        written: onnx.ModelProto = quantizer.quantize_model()
        quantizer.model.topological_sort()
    _drop_round_trips(written, chosen)
    written.producer_name, written.producer_version = "tvm_neocpu", ""
    return written


def pairs_of(graph: onnx.GraphProto) -> dict[str, tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Tensor -> the Q that reads it and that Q's DQ."""
    readers = readers_of(graph)
    return {
        node.input[0]: (node, readers[node.output[0]][0])
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    }


def _drop_round_trips(model: onnx.ModelProto, chosen: Collection[str]) -> None:
    """Take Q and DQ from results of dense layers that nothing in int8 reads: a classifier's scores.

    Their steps would make scores equal that are not.
    """
    graph = model.graph
    readers = readers_of(graph)
    outputs = set(output_names(model))
    dense = {name: node for node in graph.node for name in node.output if node.op_type in _DENSE}
    for tensor, (q, dq) in pairs_of(graph).items():
        (result,) = dq.output
        followers = readers.get(result, [])
        if tensor not in dense or any(node.name in chosen for node in followers):
            continue
        if result in outputs:
            dense[tensor].output[0] = result
        for node in followers:
            node.input[:] = [tensor if name == result else name for name in node.input]
        graph.node.remove(q)
        graph.node.remove(dq)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The writer logs advice to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
