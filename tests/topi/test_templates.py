"""The conformance suite of templates: each computes what its operator's reference does.

It asks the records: which operators there are, what they read, who implements them. A new
implementation is tested as soon as it is in the table.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from deformable import DEFORMS, deformables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import (
    BIAS,
    HOST,
    NOTHING,
    Array,
    Epilogue,
    check,
    per_channel,
    requantized,
    requantized_by_numpy,
)
from tvm import topi

from tvm_neocpu.core.candidate import has_blocks, layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.cpu import AVX2, AVX512, KIB, NEON, Cpu
from tvm_neocpu.core.dot import SMLAL
from tvm_neocpu.core.layout import factors
from tvm_neocpu.core.types import FP32, INTEGER_PRODUCTS, U8S8, U8S16, Types, uniform
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.matrices import conv_matrices
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import IntegerWinogradConfig
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.table import (
    all_implementations,
    implementation_of,
    implementations,
    operators,
)

# Spaces and schedules are those of three machines, code is this one's.
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4, l2=256 * KIB)
CORTEX = Cpu("cortex-a72", NEON, cores=1, dots=(SMLAL,))
# Integers are multiplied by plain arithmetic in the shapes of VNNI on the first two, by NEON's
# halves on the third (which LLVM compiles for any CPU), and here by this CPU's own instruction.
HERE = HOST.cpu
CPUS = (SKYLAKE, HASWELL, CORTEX, HERE)
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
    return EPILOGUES if workload.types in (FP32, FP64) else {"none": NOTHING}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


CONVS = {
    "stem, plain NCHW": ConvWorkload(1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 3, 3, 3)),
    "one pixel": ConvWorkload(1, 16, 1, 1, 24, (1, 1)),
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
    "integers, image of four": ConvWorkload(1, 4, 9, 8, 16, (3, 3), (2, 2), types=U8S8),
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
WORKLOADS: dict[str, Workload] = {**CONVS, **DEFORMS, **INTEGERS, **DENSES, **MATMULS, **TRANSFORMS}
TEMPLATES = {entry.name: entry for entry in all_implementations()}
CASES = [
    pytest.param(entry.name, workload, cpu, epilogue, id=f"{entry.name}-{cpu.isa.name}-{shape}")
    for shape, workload in WORKLOADS.items()
    for cpu, epilogue in ((SKYLAKE, "residual"), (HASWELL, "gate"), (CORTEX, "none"))
    for entry in implementations(workload, cpu)
] + [
    pytest.param(entry.name, workload, HERE, "residual", id=f"{entry.name}-here-{shape}")
    for shape, workload in WORKLOADS.items()
    if workload.types in INTEGER_PRODUCTS
    for entry in implementations(workload, HERE)
]


def favourite(template: str, workload: Workload, cpu: Cpu) -> Config:
    """The config that the cost model likes best."""
    space = TEMPLATES[template].space(workload, cpu)
    assert space, "a template that accepts a workload has a config for it"
    return min(space, key=lambda config: predict_seconds(workload, config, cpu))


@pytest.mark.parametrize(("template", "workload", "cpu", "epilogue"), CASES)
def test_odd_shapes(template: str, workload: Workload, cpu: Cpu, epilogue: str) -> None:
    known = epilogues(workload)
    epilogue = epilogue if epilogue in known else max(known)
    check(workload, favourite(template, workload, cpu), cpu, known[epilogue])


# A shape for each path through the templates: plain data, overhanging tiles, filled vectors, chunks
# of channels.
DOUBLES = (
    "stem, plain NCHW",
    "prime channels",
    "groups",
    "channel multiplier",
    "depthwise",
    "batch of pixels",
    "batch of tiny images",
    "ResNet's last",
    "deformable, prime",
    "deformable, groups",
    "batch 1",
    "prime",
    "rows a page apart",
    "matmul, odd",
    "matmul, broadcast",
    "wider blocks",
    "pack",
)
DOUBLE_CASES = [
    pytest.param(entry.name, doubled, cpu, id=f"{entry.name}-{cpu.isa.name}-{shape}")
    for cpu, shapes in ((SKYLAKE, DOUBLES), (CORTEX, DOUBLES[1::2]))
    for shape in shapes
    for doubled in [replace(WORKLOADS[shape], types=FP64)]
    for entry in implementations(doubled, cpu)
]


@pytest.mark.parametrize(("template", "workload", "cpu"), DOUBLE_CASES)
def test_double_precision(template: str, workload: Workload, cpu: Cpu) -> None:
    check(workload, favourite(template, workload, cpu), cpu, EPILOGUES["residual"])


def test_every_registered_template_is_tested() -> None:
    assert {case.values[0] for case in CASES} == set(TEMPLATES)
    assert {type(workload) for workload in WORKLOADS.values()} == {
        operator.workload_type for operator in operators()
    }


def test_every_template_of_doubles_is_tested_with_them() -> None:
    of_doubles = {name for name, entry in TEMPLATES.items() if FP64 in entry.types}
    assert {case.values[0] for case in DOUBLE_CASES} == of_doubles
    of_integers = {name for name, entry in TEMPLATES.items() if FP32 not in entry.types}
    assert of_doubles == set(TEMPLATES) - {WinogradConfig.template} - of_integers
    assert all(set(TEMPLATES[name].types) <= {*INTEGER_PRODUCTS} for name in of_integers)


def convolutions(groups: st.SearchStrategy[tuple[int, int, int]]) -> st.SearchStrategy[Workload]:
    """Convolutions of every kind; ``groups`` draws (groups, inputs and outputs of a group)."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> Workload:
        count, inputs, outputs = draw(groups)
        kernel, stride, dilation = (
            draw(st.tuples(st.integers(1, most), st.integers(1, most))) for most in (5, 3, 3)
        )
        padding = draw(st.tuples(*[st.integers(0, 3)] * 4))
        # The smallest image that has an output, and up to nine pixels more.
        sides = [
            max(1, dilation[i] * (kernel[i] - 1) + 1 - padding[i] - padding[i + 2])
            + draw(st.integers(0, 9))
            for i in (0, 1)
        ]
        channels = count * inputs, count * outputs
        batch = draw(st.integers(1, 2))
        return ConvWorkload(
            batch, channels[0], *sides, channels[1], kernel, stride, padding, dilation, count
        )

    return draw_one()


CHANNELS = st.sampled_from([1, 2, 3, 4, 7, 8, 12, 13, 16, 24, 32, 37, 48])
DENSE_CONVS = convolutions(st.tuples(st.just(1), CHANNELS, CHANNELS))
GROUPED = convolutions(
    st.tuples(st.integers(2, 4), st.sampled_from([1, 3, 8]), st.sampled_from([1, 2, 5, 16]))
)
DEPTHWISE = convolutions(
    st.tuples(CHANNELS.filter(lambda c: c > 1), st.just(1), st.sampled_from([1, 1, 2, 3]))
)
UNDILATED = st.builds(
    lambda channels, sides, kernel, stride, batch, padding: ConvWorkload(
        batch, channels[0], *sides, channels[1], kernel, stride, padding
    ),
    st.tuples(st.sampled_from([8, 12, 16, 24, 32]), st.sampled_from([8, 12, 16, 40, 48])),
    st.tuples(st.integers(7, 13), st.integers(7, 13)),
    st.sampled_from([(3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (1, 3), (3, 2), (4, 4), (7, 7)]),
    st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 2), (2, 1)]),
    st.integers(1, 2),
    st.tuples(*[st.integers(0, 2)] * 4),
)
TINY_IMAGES = st.builds(
    lambda batch, channels, kernel, sides, padding, dilation: ConvWorkload(
        batch,
        channels[0],
        *(
            max(1, sides[i] + dilation * (kernel[i] - 1) - padding[i] - padding[i + 2])
            for i in (0, 1)
        ),
        channels[1],
        kernel,
        padding=padding,
        dilation=(dilation, dilation),
    ),
    st.integers(3, 11),
    st.tuples(CHANNELS, CHANNELS),
    st.sampled_from([(1, 1), (2, 3), (3, 3), (5, 1)]),
    st.sampled_from([(1, 1), (1, 2), (2, 1)]),
    st.tuples(*[st.integers(0, 1)] * 4),
    st.integers(1, 2),
)
FEATURES = st.integers(1, 40) | st.sampled_from([64, 67, 128])
LAYERS = st.builds(DenseWorkload, st.integers(1, 17), FEATURES, FEATURES)
MANY_ROWS = st.builds(DenseWorkload, st.integers(2, 60), FEATURES, FEATURES)


@st.composite
def products(draw: st.DrawFn) -> Workload:
    """Matrices of any order of their axes; the first of two batch axes may broadcast."""
    size = st.integers(1, 40)
    rows, inner, columns, heads = draw(size), draw(size), draw(size), draw(st.integers(1, 3))
    shapes = [(heads, rows, inner), (draw(st.sampled_from([1, heads])), inner, columns)]
    axes = [tuple(draw(st.permutations(range(3)))) for _ in shapes]
    stored = [
        tuple(shape[order.index(axis)] for axis in range(3))
        for shape, order in zip(shapes, axes, strict=True)
    ]
    return MatmulWorkload(*stored, *axes)


MOVES = CHANNELS.flatmap(
    lambda channels: st.builds(
        TransformWorkload,
        st.integers(1, 2),
        st.just(channels),
        st.integers(1, 9),
        st.integers(1, 9),
        st.sampled_from((0, *factors(channels))),
        st.sampled_from((0, *factors(channels))),
    )
)


def quantized(conv: ConvWorkload) -> Workload:
    """The same of integers: types and a zero point that its shape picks."""
    pick = hash(conv)
    zeros = (0, 1, 127, 128, 255)
    types = U8S16 if pick % 3 == 0 else U8S8
    weight_bits = (8, 7, 6)[pick // 3 % 3] if types == U8S8 else 8
    return replace(conv, types=types, pad_value=zeros[pick % len(zeros)], weight_bits=weight_bits)


# Where a template takes but few workloads, they are drawn right away; others see all convolutions.
DRAWN: dict[str, st.SearchStrategy[Workload]] = {
    ConvConfig.template: DENSE_CONVS | GROUPED,
    IntegerConfig.template: (DENSE_CONVS | GROUPED).map(quantized),
    IntegerWinogradConfig.template: UNDILATED.map(
        lambda conv: replace(quantized(conv), types=U8S8)
    ),
    DepthwiseConfig.template: DEPTHWISE | DEPTHWISE.map(quantized),
    DeformConfig.template: deformables(),
    DenseConfig.template: LAYERS,
    IntegerDenseConfig.template: (LAYERS | MANY_ROWS).map(
        lambda layer: replace(layer, types=(U8S8, U8S8, U8S16)[hash(layer) % 3])
    ),
    GemmConfig.template: MANY_ROWS,
    MatmulConfig.template: products(),
    Im2colConfig.template: TINY_IMAGES,
    TransformConfig.template: MOVES.filter(lambda move: move.before != move.after),
}


def draw_workload(data: st.DataObject, template: str, cpu: Cpu) -> Workload:
    drawn = DRAWN.get(template, UNDILATED | DENSE_CONVS)
    accepts = TEMPLATES[template].accepts
    return data.draw(drawn.filter(lambda workload: accepts(workload, cpu)), "workload")


@pytest.mark.parametrize("template", TEMPLATES)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_config_of_any_workload(template: str, data: st.DataObject) -> None:
    cpu = data.draw(st.sampled_from(CPUS), "cpu")
    workload = draw_workload(data, template, cpu)
    config = data.draw(st.sampled_from(TEMPLATES[template].space(workload, cpu)), "config")
    known = epilogues(workload)
    epilogue = data.draw(st.sampled_from(sorted(known)), "epilogue")
    check(workload, config, cpu, known[epilogue])


@pytest.mark.parametrize("template", TEMPLATES)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_space_is_sane(template: str, data: st.DataObject) -> None:
    """It is never empty nor repeats itself, and no price is below what the hardware allows."""
    cpu = data.draw(st.sampled_from(CPUS), "cpu")
    workload = draw_workload(data, template, cpu)
    space = TEMPLATES[template].space(workload, cpu)
    assert 0 < len(space) == len(set(space))
    peak = cpu.peak_gflops(peak_types(workload)) * 1e9 * cpu.cores
    for config in space[:: 1 + len(space) // 200]:
        assert implementation_of(config) is TEMPLATES[template]
        assert TEMPLATES[template].fits(workload, config, cpu)
        assert blocks_divide(workload, config)
        price = predict_seconds(workload, config, cpu)
        assert math.isfinite(price)
        is_free = isinstance(workload, TransformWorkload) and workload.is_free
        assert price >= workload.flops * share_of_products(workload, config) / peak
        assert price > 0 or is_free


def peak_types(workload: Workload) -> Types:
    """The types whose multiply-adds a workload's operations are; a transform has none."""
    return FP32 if isinstance(workload, TransformWorkload) else workload.types


def blocks_divide(workload: Workload, config: Config) -> bool:
    """Whether the layouts that a config reads and writes exist for the workload's channels."""
    if not has_blocks(config):
        return True
    shapes = workload.operands[0].shape, workload.out_shape
    return all(
        layout.fits(shape[1]) for layout, shape in zip(layouts_of(config), shapes, strict=True)
    )


def share_of_products(workload: Workload, config: Config) -> float:
    """Winograd F(4x4, 3x3) needs 36 products for the 144 of a direct convolution."""
    if not isinstance(config, WinogradConfig):
        return 1
    matrices = conv_matrices(workload, config.tile)
    shares = [
        m.products / (m.outputs * taps) for m, taps in zip(matrices, workload.kernel, strict=True)
    ]
    return math.prod(shares)
