"""Workloads of every operator, odd ones above all, and what may be fused behind them."""

from __future__ import annotations

import numpy as np
from deformable import DEFORMS
from samples import (
    BIAS,
    NOTHING,
    Array,
    Epilogue,
    per_channel,
    requantized,
    requantized_by_numpy,
)
from tvm import topi

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import (
    BF16_WEIGHTS,
    FP16_WEIGHTS,
    FP32,
    HALF_WEIGHTS,
    INTEGER_PRODUCTS,
    U8S8,
    U8S16,
    uniform,
)
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.table import all_implementations

FP64 = uniform("float64")

EPILOGUES = {
    "none": NOTHING,
    "bias": BIAS,
    "residual": Epilogue(
        lambda shape: [per_channel(shape), shape],
        lambda y, bias, other: topi.nn.relu(topi.add(topi.add(y, bias), other)),
        lambda y, bias, other: np.maximum(y + bias + other, 0),
    ),
    "swish": Epilogue(
        lambda shape: [per_channel(shape)],
        lambda y, bias: (lambda t: topi.multiply(t, topi.sigmoid(t)))(topi.add(y, bias)),
        lambda y, bias: (y + bias) * sigmoid(y + bias),
    ),
    # The product of a squeeze-excite gate has more elements than the gate.
    "gate": Epilogue(
        lambda shape: [per_channel(shape), (3, *shape)],
        lambda y, bias, other: topi.multiply(other, topi.sigmoid(topi.add(y, bias))),
        lambda y, bias, other: other * sigmoid(y + bias),
    ),
}


INTEGER_EPILOGUES = {
    "none": NOTHING,
    "bias": BIAS,
    "requantized": Epilogue(
        lambda shape: [per_channel(shape)],
        requantized,
        requantized_by_numpy,
        ("float32", "uint8"),
    ),
    "residual": Epilogue(
        lambda shape: [per_channel(shape), shape],
        requantized,
        requantized_by_numpy,
        ("float32", "uint8", "uint8"),
    ),
}


def epilogues(workload: Workload) -> dict[str, Epilogue]:
    """Those that a network has behind a workload of such types."""
    if workload.types in INTEGER_PRODUCTS:
        return INTEGER_EPILOGUES
    of_floats = (FP32, FP64, *HALF_WEIGHTS)
    return EPILOGUES if workload.types in of_floats else {"none": NOTHING}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


CONVS = {
    "stem, plain NCHW": ConvWorkload(1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 3, 3)),
    "one pixel": ConvWorkload(1, 16, 1, 1, 24, (1, 1)),
    "one pixel, weights in streams": ConvWorkload(1, 144, 1, 1, 120, (1, 1)),
    "image smaller than the kernel": ConvWorkload(1, 8, 2, 1, 16, (5, 3), padding=(2, 1, 2, 1)),
    "prime channels": ConvWorkload(1, 13, 9, 11, 37, (3, 3), padding=(1, 1, 1, 1)),
    "asymmetric padding": ConvWorkload(1, 8, 7, 9, 16, (3, 2), (1, 2), (0, 3, 2, 1)),
    "stride 3 over a 1x1 kernel": ConvWorkload(1, 12, 8, 10, 20, (1, 1), (3, 3)),
    "dilation": ConvWorkload(1, 8, 11, 11, 8, (3, 3), (1, 1), (2, 3, 2, 3), (2, 3)),
    "groups": ConvWorkload(2, 24, 7, 7, 36, (3, 3), (2, 2), (1, 1, 1, 1), groups=3),
    "channel multiplier": ConvWorkload(1, 6, 6, 6, 18, (3, 3), padding=(1, 1, 1, 1), groups=6),
    "multiplier, unpadded": ConvWorkload(2, 16, 7, 9, 32, (3, 2), (2, 1), groups=16),
    "multiplier, narrow": ConvWorkload(1, 2, 5, 5, 160, (3, 3), padding=(1, 1, 1, 1), groups=2),
    "a pair of tiles": ConvWorkload(1, 32, 5, 17, 48, (3, 3), padding=(1, 1, 1, 1)),
    "filled vectors": ConvWorkload(1, 16, 9, 7, 59, (3, 3), padding=(1, 0, 1, 0)),
    "filled vectors, groups": ConvWorkload(1, 8, 5, 6, 126, (1, 1), groups=2),
    "depthwise": ConvWorkload(2, 24, 9, 7, 24, (3, 3), (2, 1), (0, 1, 1, 1), (1, 2), groups=24),
    "depthwise, prime": ConvWorkload(1, 19, 5, 5, 19, (5, 5), padding=(2, 2, 2, 2), groups=19),
    "depthwise, one pixel": ConvWorkload(1, 32, 1, 1, 32, (3, 3), padding=(1, 1, 1, 1), groups=32),
    "batch": ConvWorkload(3, 16, 6, 5, 32, (3, 3), padding=(1, 1, 1, 1)),
    "batch of pixels": ConvWorkload(8, 40, 1, 1, 72, (1, 1)),
    "batch of tiny images": ConvWorkload(5, 13, 3, 4, 37, (3, 2), (2, 2), (1, 1, 0, 1), (1, 2)),
    "one row of taps": ConvWorkload(2, 16, 5, 17, 32, (1, 7), padding=(0, 3, 0, 3)),
    "one column of taps": ConvWorkload(1, 24, 17, 6, 16, (7, 1), padding=(3, 0, 2, 0)),
    "five by five": ConvWorkload(1, 16, 11, 9, 24, (5, 5), padding=(2, 2, 2, 2)),
    "stride 2": ConvWorkload(1, 16, 15, 18, 32, (3, 3), (2, 2), (1, 0, 0, 1)),
    "stride 2 of seven": ConvWorkload(1, 8, 17, 14, 16, (7, 7), (2, 2), (3, 3, 3, 3)),
    "few outputs": ConvWorkload(1, 24, 9, 11, 3, (3, 3), padding=(1, 1, 1, 1)),
    "one output": ConvWorkload(2, 16, 7, 13, 1, (5, 5), (2, 1), (2, 1, 2, 3)),
    "few outputs, whole tiles": ConvWorkload(1, 32, 6, 16, 2, (3, 2), (1, 1), (2, 0, 0, 2), (2, 2)),
    "ResNet's last": ConvWorkload(1, 64, 7, 7, 96, (3, 3), padding=(1, 1, 1, 1)),
}
# Zero points as padding, words that no channels fill, differences of 9 bits as weights.
INTEGERS = {
    "zero point 0": ConvWorkload(
        1, 16, 9, 11, 24, (3, 3), padding=(1, 0, 2, 1), types=U8S8, pad_value=0
    ),
    "zero point 1": ConvWorkload(
        1, 13, 9, 11, 37, (3, 3), padding=(1, 1, 1, 1), types=U8S8, pad_value=1
    ),
    "zero point 127": ConvWorkload(
        2, 8, 7, 9, 16, (3, 2), (1, 2), (0, 3, 2, 1), types=U8S8, pad_value=127
    ),
    "zero point 128": ConvWorkload(
        1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8, pad_value=128
    ),
    "zero point 255": ConvWorkload(
        2, 24, 7, 7, 36, (3, 3), (2, 2), (1, 1, 1, 1), groups=3, types=U8S8, pad_value=255
    ),
    "zero point of weights": ConvWorkload(
        1, 6, 7, 5, 24, (3, 3), padding=(1, 1, 1, 1), types=U8S16, pad_value=128
    ),
    "integers, 1x1": ConvWorkload(1, 64, 7, 7, 48, (1, 1), types=U8S8),
    "integers, 1x1, stride": ConvWorkload(1, 20, 8, 10, 28, (1, 1), (2, 3), types=U8S8),
    "weights of 7 bits": ConvWorkload(
        1, 24, 9, 11, 37, (3, 3), padding=(1, 0, 2, 1), types=U8S8, pad_value=255, weight_bits=7
    ),
    "weights of 7 bits, stem": ConvWorkload(
        1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8, pad_value=9, weight_bits=7
    ),
    "weights of 7 bits, prime": ConvWorkload(1, 13, 9, 11, 37, (3, 3), types=U8S8, weight_bits=7),
    "weights of 6 bits": ConvWorkload(2, 64, 7, 7, 48, (1, 1), types=U8S8, weight_bits=6),
    "weights of 6 bits, groups": ConvWorkload(
        1, 48, 7, 7, 36, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 3, U8S8, 128, 6
    ),
    "weights of 6 bits, a word and a half": ConvWorkload(
        1, 12, 8, 10, 28, (1, 1), (2, 3), types=U8S8, weight_bits=6
    ),
    "integers, long sums": ConvWorkload(1, 512, 3, 3, 8, (3, 3), types=U8S8),
    "integers, depthwise": ConvWorkload(
        2, 24, 9, 7, 24, (3, 3), (2, 1), (0, 1, 1, 1), (1, 2), 24, U8S8, 128
    ),
    "integers, depthwise, prime": ConvWorkload(
        1, 19, 5, 5, 19, (5, 5), padding=(2, 2, 2, 2), groups=19, types=U8S16, pad_value=1
    ),
    "integers, depthwise, rows": ConvWorkload(
        2, 24, 9, 7, 24, (3, 3), padding=(1, 1, 0, 1), groups=24, types=U8S8, pad_value=131
    ),
    "integers, depthwise, rows, stride": ConvWorkload(
        1, 16, 9, 12, 16, (5, 4), (2, 3), (2, 1, 1, 0), groups=16, types=U8S8, pad_value=255
    ),
    "integers, channel multiplier": ConvWorkload(
        1, 6, 6, 6, 18, (3, 3), padding=(1, 1, 1, 1), groups=6, types=U8S8, pad_value=255
    ),
    "integers, tiles that overhang": ConvWorkload(
        3, 24, 15, 11, 40, (3, 3), padding=(1, 2, 0, 1), types=U8S8, pad_value=77
    ),
    "integers, stride 2": ConvWorkload(
        1, 20, 15, 18, 36, (3, 3), (2, 2), (1, 0, 0, 1), types=U8S8, pad_value=200
    ),
    "integers, one row of taps": ConvWorkload(
        2, 16, 5, 17, 32, (1, 7), padding=(0, 3, 0, 3), types=U8S8, pad_value=9
    ),
    "integers, five by five": ConvWorkload(
        1, 8, 11, 9, 12, (5, 5), padding=(2, 2, 2, 2), types=U8S8, pad_value=255
    ),
    "integers, rows of an image": ConvWorkload(
        2, 3, 13, 17, 20, (5, 5), (2, 3), (2, 1, 0, 3), types=U8S8, pad_value=130
    ),
    "integers, image of four": ConvWorkload(1, 4, 9, 8, 16, (3, 3), (2, 2), types=U8S8),
}
# Weights of half precision.
HALVES = {
    "fp16 weights, prime": ConvWorkload(
        1, 13, 9, 11, 37, (3, 3), padding=(1, 0, 2, 1), types=FP16_WEIGHTS
    ),
    "fp16 weights, groups": ConvWorkload(
        2, 24, 7, 7, 36, (3, 3), (2, 2), (1, 1, 1, 1), groups=3, types=FP16_WEIGHTS
    ),
    "fp16 weights, stem": ConvWorkload(
        1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 3, 3), types=FP16_WEIGHTS
    ),
    "bf16 weights, 1x1": ConvWorkload(1, 64, 7, 7, 48, (1, 1), types=BF16_WEIGHTS),
    "bf16 weights, filled vectors": ConvWorkload(
        1, 16, 9, 7, 59, (3, 3), padding=(1, 0, 1, 0), types=BF16_WEIGHTS
    ),
    "bf16 weights, tiles": ConvWorkload(
        1, 16, 14, 10, 32, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS
    ),
    "bf16 weights, stem": ConvWorkload(
        1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 3, 3), types=BF16_WEIGHTS
    ),
    "fp16 weights, batch 1": DenseWorkload(1, 33, 1000, FP16_WEIGHTS),
    "fp16 weights, many rows": DenseWorkload(75, 32, 96, FP16_WEIGHTS),
    "bf16 weights, batch 1": DenseWorkload(1, 1031, 67, BF16_WEIGHTS),
    "bf16 weights, rows a page apart": DenseWorkload(28, 1024, 33, BF16_WEIGHTS),
}
DENSES = {
    "batch 1": DenseWorkload(1, 33, 1000),
    "one feature": DenseWorkload(1, 7, 1),
    "prime": DenseWorkload(5, 31, 67),
    "batch 16": DenseWorkload(16, 64, 48),
    "ImageNet-21k": DenseWorkload(1, 16, 21841),
    "many rows": DenseWorkload(75, 32, 96),
    "integers, batch 1": DenseWorkload(1, 130, 50, U8S8),
    "integers, prime": DenseWorkload(5, 31, 67, U8S8),
    "integers, long rows": DenseWorkload(17, 2048, 24, U8S8),
    "integers, zero point of weights": DenseWorkload(6, 64, 16, U8S16),
    "rows a page apart": DenseWorkload(28, 1024, 33),
}
MATMULS = {
    "matmul, even": MatmulWorkload((2, 14, 16), (2, 16, 32), (0, 1, 2), (0, 1, 2)),
    "matmul, odd": MatmulWorkload((3, 17, 33), (3, 33, 49), (0, 1, 2), (0, 1, 2)),
    "queries by keys": MatmulWorkload((1, 49, 3, 8), (1, 49, 3, 8), (0, 2, 1, 3), (0, 2, 3, 1)),
    "matmul, broadcast": MatmulWorkload((7, 5), (2, 3, 9, 7), (1, 0), (0, 1, 3, 2)),
    "matmul, one row": MatmulWorkload((1, 40), (40, 3), (0, 1), (0, 1)),
}
TRANSFORMS = {
    "pack": TransformWorkload(2, 24, 5, 3, 0, 8),
    "unpack": TransformWorkload(1, 48, 3, 5, 48, 0),
    "wider blocks": TransformWorkload(1, 36, 4, 4, 6, 9),
    "prime blocks": TransformWorkload(1, 39, 3, 3, 39, 13),
    "pack bytes": TransformWorkload(1, 48, 7, 9, 0, 16, uniform("uint8")),
    "unpack bytes": TransformWorkload(1, 48, 7, 9, 48, 0, uniform("uint8")),
}
WORKLOADS: dict[str, Workload] = {
    **CONVS,
    **DEFORMS,
    **INTEGERS,
    **HALVES,
    **DENSES,
    **MATMULS,
    **TRANSFORMS,
}
# A sweep says what a call costs; nobody computes by it.
PRICED_ONLY = SweepWorkload
TEMPLATES = {
    entry.name: entry for entry in all_implementations() if entry.config_type is not SweepConfig
}
# A sweep says what a call costs; nobody computes by it.
PRICED_ONLY = SweepWorkload
TEMPLATES = {
    entry.name: entry for entry in all_implementations() if entry.config_type is not SweepConfig
}


def favourite(template: str, workload: Workload, cpu: Cpu) -> Config:
    """The config that the cost model likes best."""
    space = TEMPLATES[template].space(workload, cpu)
    assert space, "a template that accepts a workload has a config for it"
    return min(space, key=TEMPLATES[template].price(workload, cpu))
