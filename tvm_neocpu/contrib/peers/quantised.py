"""What a quantised network should compute, and how far from it an engine may be.

There is no single answer. A sum that lies between two codes is rounded by its last bits, and the
next layers carry the other code on: ONNX Runtime's own ways to run one file, which ONNX all allows,
differ by 1e-2 to 3e-2 for ResNets of random weights. So its ways are compared with each other, and
an engine may be twice as far away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from numpy.typing import NDArray

from tvm_neocpu.core.accuracy.largest_error import largest_error
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.runtime.process import host

# Of the largest value: four codes of 255, where ONNX Runtime's ways agree by chance.
LEAST_TOLERANCE = 4 / 255
# LLVM's names of the features with which four products of bytes are added in 32 bits.
_VNNI = {"avx512vnni", "avxvnni", "avxvnniint8"}
_OPERATORS = (
    "Quantize",
    "Dequantize",
    "DynamicQuantize",
    "QLinear",
    "ConvInteger",
    "MatMulInteger",
)


@dataclass(frozen=True)
class Expected:
    """The outputs to compare with, and the largest error over the largest value that is right."""

    outputs: list[NDArray[Any]]
    tolerance: float


def sums_saturate(arch: str, features: Collection[str] | None) -> bool:
    """Whether the peers' int8 sums saturate on such a CPU: 16 bits hold two products on x86."""
    return arch == "x86_64" and features is not None and not _VNNI & set(features)


def sums_saturate_here() -> bool:
    """Whether they saturate on this machine."""
    return sums_saturate(host.arch(), host.executable_features())


def is_quantised(model: onnx.ModelProto) -> bool:
    """Whether any operation makes or reads codes."""
    return any(node.op_type.startswith(_OPERATORS) for node in model.graph.node)


def expected_outputs(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> Expected | None:
    """For a quantised network; ``None`` for any other. Raises NeoCpuError where there are none.

    ONNX Runtime's integer kernels are one of its ways where their sums do not saturate.
    """
    if not is_quantised(model):
        return None
    outputs = runner(model, optimised=False)(inputs)
    ways = [runner(model)]
    if not sums_saturate_here():
        ways.append(runner(model, exact=False))
    spread = max(largest_error(way(inputs), outputs) for way in ways)
    return Expected(outputs, max(2 * spread, LEAST_TOLERANCE))
