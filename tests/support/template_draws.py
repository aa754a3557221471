"""Random workloads that a template accepts."""

from __future__ import annotations

import zlib
from dataclasses import replace

from deformable import deformables
from hypothesis import strategies as st
from template_workloads import TEMPLATES

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_WEIGHTS, FP16_WEIGHTS, HALF_WEIGHTS, U8S8, U8S16
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
)
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import RowsConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsConfig
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import IntegerWinogradConfig
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig
from tvm_neocpu.topi.dense_gemm.geometry import GemmConfig
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload


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
TO_FEW = convolutions(
    st.tuples(
        st.just(1), st.sampled_from([8, 12, 16, 24, 32, 48, 56, 64]), st.sampled_from([1, 2, 3, 4])
    )
)
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
ROWS = st.builds(
    lambda batch, channels, sides, kernel, stride, padding: ConvWorkload(
        batch, channels, *sides, channels, kernel, stride, padding, groups=channels
    ),
    st.integers(1, 2),
    st.sampled_from([2, 7, 8, 12, 16, 24, 37, 48]),
    st.tuples(st.integers(5, 13), st.integers(5, 13)),
    st.tuples(st.integers(2, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 2), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 2)] * 4),
)


def quantised_conv(
    batch: int,
    channels: tuple[int, int],
    sides: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    zero: int,
) -> ConvWorkload:
    """Of codes, ``zero`` outside; the image is at least as large as the kernel."""
    height, width = (max(side, taps) for side, taps in zip(sides, kernel, strict=True))
    return ConvWorkload(
        batch,
        channels[0],
        height,
        width,
        channels[1],
        kernel,
        stride,
        padding,
        types=U8S8,
        pad_value=zero,
    )


SPLIT_CONVS = st.builds(
    quantised_conv,
    st.integers(1, 2),
    st.tuples(st.sampled_from([8, 16, 24, 32, 40, 64]), CHANNELS),
    st.tuples(st.integers(1, 15), st.integers(1, 15)),
    st.sampled_from([(1, 1), (1, 1), (1, 7), (7, 1), (3, 3), (2, 4), (5, 5)]),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.just((0, 0, 0, 0)) | st.tuples(*[st.integers(0, 3)] * 4),
    st.sampled_from([0, 1, 32]),
)
# First convolutions, whose rows of 1 to 7 columns take fewer words than their columns, or as many.


def images(filters: st.SearchStrategy[int]) -> st.SearchStrategy[ConvWorkload]:
    """First convolutions of so many filters."""
    return st.builds(
        quantised_conv,
        st.integers(1, 2),
        st.tuples(st.integers(1, 3), filters),
        st.tuples(st.integers(5, 24), st.integers(5, 24)),
        st.tuples(st.sampled_from([1, 3, 7]), st.sampled_from([3, 5, 6, 7])),
        st.tuples(st.integers(1, 2), st.integers(1, 4)),
        st.tuples(*[st.integers(0, 3)] * 4),
        st.sampled_from([0, 1, 130, 255]),
    )


IMAGES = images(CHANNELS)
# Tiles take rows of one column, too.
TILED_FILTERS = st.sampled_from([16, 32, 48, 64, 80])
TILED_IMAGES = images(TILED_FILTERS) | st.builds(
    quantised_conv,
    st.integers(1, 2),
    st.tuples(st.integers(1, 4), TILED_FILTERS),
    st.tuples(st.integers(1, 24), st.integers(1, 24)),
    st.just((1, 1)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.just((0, 0, 0, 0)) | st.tuples(*[st.integers(0, 2)] * 4),
    st.sampled_from([0, 1, 130, 255]),
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


# Enough channels for rows of words, and whole tiles of filters.
TILED = convolutions(
    st.tuples(
        st.sampled_from([1, 1, 2]),
        st.sampled_from([16, 20, 32, 37, 64, 96]),
        st.sampled_from([16, 32, 48, 64, 80]),
    )
)


def _number_of(workload: Workload) -> int:
    """The same in every process: names in a workload make Python's ``hash`` another each time."""
    return zlib.crc32(repr(workload).encode())


def quantized(conv: ConvWorkload) -> Workload:
    """The same of integers: types and a zero point that its shape picks."""
    pick = _number_of(conv)
    zeros = (0, 1, 127, 128, 255)
    types = U8S16 if pick % 3 == 0 else U8S8
    weight_bits = (8, 7, 6)[pick // 3 % 3] if types == U8S8 else 8
    return replace(conv, types=types, pad_value=zeros[pick % len(zeros)], weight_bits=weight_bits)


def stored_in_half(workload: Workload) -> Workload:
    """The same with weights of half precision."""
    types = HALF_WEIGHTS[_number_of(workload) % len(HALF_WEIGHTS)]
    return replace(workload, types=types)  # type: ignore[type-var]


# Where a template takes but few workloads, they are drawn right away; others see all convolutions.
DRAWN: dict[str, st.SearchStrategy[Workload]] = {
    Bf16Config.template: (DENSE_CONVS | GROUPED).map(
        lambda conv: replace(conv, types=BF16_WEIGHTS)  # type: ignore[type-var]
    ),
    ConvConfig.template: DENSE_CONVS | GROUPED | (DENSE_CONVS | GROUPED).map(stored_in_half),
    IntegerConfig.template: (DENSE_CONVS | GROUPED).map(quantized),
    Bf16TilesConfig.template: TILED.map(
        lambda conv: replace(conv, types=BF16_WEIGHTS)  # type: ignore[type-var]
    ),
    IntegerTilesConfig.template: TILED.map(lambda conv: replace(quantized(conv), types=U8S8)),
    Bf16WinogradConfig.template: UNDILATED.map(
        lambda conv: replace(conv, types=BF16_WEIGHTS)  # type: ignore[type-var]
    ),
    IntegerWinogradConfig.template: UNDILATED.map(
        lambda conv: replace(quantized(conv), types=U8S8)
    ),
    FewConfig.template: TO_FEW,
    ImageRowsConfig.template: IMAGES,
    IntegerRowsConfig.template: TILED_IMAGES,
    Bf16RowsConfig.template: TILED_IMAGES.map(
        lambda conv: replace(conv, types=BF16_WEIGHTS, pad_value=0)
    ),
    DepthwiseConfig.template: DEPTHWISE | DEPTHWISE.map(quantized),
    RowsConfig.template: ROWS.map(quantized),
    SplitConfig.template: SPLIT_CONVS,
    DeformConfig.template: deformables(),
    Bf16DenseConfig.template: LAYERS.map(
        lambda layer: replace(layer, types=BF16_WEIGHTS)  # type: ignore[type-var]
    ),
    DenseConfig.template: LAYERS | LAYERS.map(stored_in_half),
    IntegerDenseConfig.template: (LAYERS | MANY_ROWS).map(
        lambda layer: replace(layer, types=(U8S8, U8S8, U8S16)[_number_of(layer) % 3])
    ),
    GemmConfig.template: MANY_ROWS | MANY_ROWS.map(stored_in_half),
    MatmulConfig.template: products(),
    Im2colConfig.template: TINY_IMAGES,
    WinogradConfig.template: UNDILATED
    | UNDILATED.map(
        lambda conv: replace(conv, types=FP16_WEIGHTS)  # type: ignore[type-var]
    ),
    TransformConfig.template: MOVES.filter(lambda move: move.before != move.after),
}


def draw_workload(data: st.DataObject, template: str, cpu: Cpu) -> Workload:
    drawn = DRAWN.get(template, UNDILATED | DENSE_CONVS)
    accepts = TEMPLATES[template].accepts
    return data.draw(drawn.filter(lambda workload: accepts(workload, cpu)), "workload")
