"""Small networks that ONNX Runtime's quantiser has quantised, and a comparison with what it runs.

On an x86 CPU without VNNI, ONNX Runtime's products of uint8 and int8 may saturate (``vpmaddubsw``).
So QDQ files are run with all optimisations off: it dequantises then and computes in float32. Files
of integer operators have weights of 7 bits.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx_text import ours, parsed

ort = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

Array = NDArray[Any]

QDQ, QOPERATOR = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
TYPES = {
    "u8s8": (quantization.QuantType.QUInt8, quantization.QuantType.QInt8),
    "s8s8": (quantization.QuantType.QInt8, quantization.QuantType.QInt8),
    "u8u8": (quantization.QuantType.QUInt8, quantization.QuantType.QUInt8),
}
# Of the elements of an integer tensor, at most so many differ, by 1: ties of rounding.
TIES = 1e-3


class _Samples(quantization.CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto) -> None:
        self._left = iter([images(model, seed) for seed in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def images(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Normal values for every input."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim], dtype=np.float32
        )
        for value in model.graph.input
    }


def network(text: str, **weights: tuple[int, ...]) -> onnx.ModelProto:
    """A network of a graph's text; weights of these shapes are drawn, of a variance that suits."""
    rng = np.random.default_rng(0)
    drawn = {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) / 2 + 1)).astype("float32")
        for name, shape in weights.items()
    }
    return parsed(text, **drawn)


def quantized(
    model: onnx.ModelProto,
    types: str = "u8s8",
    form: Any = QDQ,
    per_channel: bool = False,
    reduce_range: bool = False,
) -> onnx.ModelProto:
    """What ``quantize_static`` makes of the network, calibrated on four images.

    With ``reduce_range`` weights have 7 bits, as they have in files of integer operators, which run
    as such whatever the options say.
    """
    activation, weight = TYPES[types]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        quantization.quantize_static(
            copy.deepcopy(model),
            path,
            _Samples(model),
            quant_format=form,
            per_channel=per_channel,
            reduce_range=reduce_range or form == QOPERATOR,
            activation_type=activation,
            weight_type=weight,
        )
        return onnx.load(path)


def dynamically_quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """What ``quantize_dynamic`` makes of the network: activations quantised by their own range."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        quantization.quantize_dynamic(
            copy.deepcopy(model), path, weight_type=quantization.QuantType.QUInt8
        )
        return onnx.load(path)


def with_integer_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the dequantising of its outputs: what they are dequantised from."""
    result = copy.deepcopy(model)
    makers = {name: node for node in result.graph.node for name in node.output}
    for output in result.graph.output:
        last = makers[output.name]
        assert last.op_type == "DequantizeLinear", output.name
        zero = next(w for w in result.graph.initializer if w.name == last.input[2])
        result.graph.node.remove(last)
        output.name = last.input[0]
        output.type.tensor_type.elem_type = zero.data_type
    return result


def expected(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime computes without optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # errors alone
    return _run(model, inputs, options)


def on_integers(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime's integer kernels compute; weights must have 7 bits."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return _run(model, inputs, options)


def _run(model: onnx.ModelProto, inputs: Mapping[str, Array], options: Any) -> list[Array]:
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(inputs))


def assert_equal_but_for_ties(found: Array, wanted: Array, ties: float = TIES) -> None:
    """Integers differ by 1 at most, and in few places."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    differences = np.abs(found.astype("int64") - wanted.astype("int64"))
    assert differences.max(initial=0) <= 1
    assert np.mean(differences > 0) <= ties


def check_quantized(model: onnx.ModelProto, ties: float = TIES) -> None:
    """Our integer outputs are ONNX Runtime's, ties of rounding apart."""
    model = with_integer_outputs(model)
    inputs = images(model, seed=9)
    for mine, theirs in zip(ours(model, inputs), expected(model, inputs), strict=True):
        assert_equal_but_for_ties(mine, theirs, ties)
