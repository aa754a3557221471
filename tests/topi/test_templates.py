"""The conformance suite of templates: each computes what NumPy does, with any config it offers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import te, topi
from tvm.s_tir import Schedule

from tvm_neocpu.core.candidate import layouts_of
from tvm_neocpu.core.config import Config
from tvm_neocpu.core.cpu import AVX2, AVX512, KIB, NEON, Cpu
from tvm_neocpu.core.layout import Layout, factors
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi import strategy
from tvm_neocpu.topi.anchor import find_anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.matrices import conv_matrices
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.table import implementation_of, implementations

Floats = npt.NDArray[np.float32]
Shape = tuple[int, ...]

# Spaces are those of three machines, code is this one's.
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4, l2=256 * KIB)
CORTEX = Cpu("cortex-a72", NEON, cores=1)
CPUS = (SKYLAKE, HASWELL, CORTEX)
TARGET = parse_target().target


@dataclass(frozen=True)
class Epilogue:
    """What is fused behind a template: shapes of further inputs, the stages, the same in NumPy."""

    inputs: Callable[[Shape], list[Shape]]
    stages: Callable[..., te.Tensor]
    expected: Callable[..., Floats]


def per_channel(shape: Shape) -> Shape:
    """A bias of (N, K/x, H, W, x) is (1, K/x, 1, 1, x); of a dense layer's (N, O) it is (1, O)."""
    return tuple(1 if axis in (0, 2, 3) else extent for axis, extent in enumerate(shape))


EPILOGUES = {
    "none": Epilogue(lambda shape: [], lambda y: y, lambda y: y),
    "bias": Epilogue(lambda shape: [per_channel(shape)], topi.add, np.add),
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


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def stored(x: Floats, layout: Layout) -> Floats:
    """An NCHW tensor as it lies in memory in a layout."""
    if not layout.is_blocked:
        return x
    n, c, h, w = x.shape
    split = x.reshape(n, c // layout.block, layout.block, h, w)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def convolved(x: Floats, weight: Floats, conv: ConvWorkload) -> Floats:
    """The convolution, one tap of the kernel after the other."""
    top, left, bottom, right = conv.padding
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    grouped = padded.reshape(conv.batch, conv.groups, -1, *padded.shape[2:])
    filters = weight.reshape(conv.groups, -1, *weight.shape[1:])
    (stride_y, stride_x), (step_y, step_x) = conv.stride, conv.dilation
    total = np.zeros((conv.batch, *filters.shape[:2], conv.out_height, conv.out_width))
    for kh, kw in np.ndindex(*conv.kernel):
        pixels = grouped[..., kh * step_y :: stride_y, kw * step_x :: stride_x]
        pixels = pixels[..., : conv.out_height, : conv.out_width]
        total += np.einsum("ngchw,gkc->ngkhw", pixels, filters[..., kh, kw])
    return total.reshape(conv.out_shape).astype("float32")


@dataclass(frozen=True)
class Sample:
    """What goes in and what must come out, stored as the config wants it; packed weights last."""

    inputs: list[Floats]
    expected: Floats


def sample(workload: Workload, config: Config, rng: np.random.Generator) -> Sample:
    if isinstance(workload, TransformWorkload):
        x = rng.normal(size=workload.in_shape).astype("float32")
        before, after = Layout(workload.before), Layout(workload.after)
        return Sample([stored(x, before)], stored(x, after))
    pack = implementation_of(config).pack_weight
    if isinstance(workload, DenseWorkload):
        x = rng.normal(size=(workload.batch, workload.in_features)).astype("float32")
        weight = rng.normal(size=(workload.in_features, workload.out_features)).astype("float32")
        return Sample([x, pack(weight, workload, config)], x @ weight)
    x = rng.normal(size=workload.in_shape).astype("float32")
    weight = rng.normal(size=workload.weight_shape).astype("float32")
    before, after = layouts_of(config)
    expected = stored(convolved(x, weight, workload), after)
    return Sample([stored(x, before), pack(weight, workload, config)], expected)


def check(workload: Workload, config: Config, epilogue: Epilogue) -> None:
    """Compile the template with the epilogue behind it, as `FuseTIR` would, and compare."""
    template, rng = implementation_of(config), np.random.default_rng(0)
    case = sample(workload, config, rng)
    inputs = [te.placeholder(array.shape, name=f"p{i}") for i, array in enumerate(case.inputs)]
    out = template.compute(*inputs, workload, config)
    assert tuple(out.shape) == case.expected.shape
    extras = [rng.normal(size=s).astype("float32") for s in epilogue.inputs(case.expected.shape)]
    more = [te.placeholder(array.shape, name=f"extra{i}") for i, array in enumerate(extras)]
    result = epilogue.stages(out, *more)
    func = schedule_function(te.create_prim_func([*inputs, *more, result]))
    assert find_anchor(Schedule(func)) is None, "left unscheduled"
    expected = epilogue.expected(case.expected, *extras)
    got = tvm.runtime.tensor(np.full(expected.shape, np.nan, "float32"))
    tensors = [tvm.runtime.tensor(array) for array in (*case.inputs, *extras)]
    tvm.compile(func, target=TARGET)["main"](*tensors, got)
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


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
DENSES = {
    "batch 1": DenseWorkload(1, 33, 1000),
    "one feature": DenseWorkload(1, 7, 1),
    "prime": DenseWorkload(5, 31, 67),
    "batch 16": DenseWorkload(16, 64, 48),
    "ImageNet-21k": DenseWorkload(1, 16, 21841),
}
TRANSFORMS = {
    "pack": TransformWorkload(2, 24, 5, 3, 0, 8),
    "unpack": TransformWorkload(1, 48, 3, 5, 48, 0),
    "wider blocks": TransformWorkload(1, 36, 4, 4, 6, 9),
    "prime blocks": TransformWorkload(1, 39, 3, 3, 39, 13),
}
WORKLOADS: dict[str, Workload] = {**CONVS, **DENSES, **TRANSFORMS}
TEMPLATES = {entry.name: entry for entries in strategy._TABLE.values() for entry in entries}
CASES = [
    pytest.param(name, workload, cpu, epilogue, id=f"{name}-{cpu.isa.name}-{shape}")
    for shape, workload in WORKLOADS.items()
    for cpu, epilogue in ((SKYLAKE, "residual"), (HASWELL, "gate"), (CORTEX, "none"))
    for name, template in TEMPLATES.items()
    if template in implementations(workload, cpu)
]


@pytest.mark.parametrize(("template", "workload", "cpu", "epilogue"), CASES)
def test_odd_shapes(template: str, workload: Workload, cpu: Cpu, epilogue: str) -> None:
    """The config that the cost model likes best."""
    space = TEMPLATES[template].space(workload, cpu)
    assert space, "a template that accepts a workload has a config for it"
    best = min(space, key=lambda config: predict_seconds(workload, config, cpu))
    check(workload, best, EPILOGUES[epilogue])


def test_every_registered_template_is_tested() -> None:
    assert {case.values[0] for case in CASES} == set(TEMPLATES)


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
# Where a template takes but few workloads, they are drawn right away; others see all convolutions.
DRAWN: dict[str, st.SearchStrategy[Workload]] = {
    ConvConfig.template: DENSE_CONVS | GROUPED,
    DepthwiseConfig.template: DEPTHWISE,
    DenseConfig.template: LAYERS,
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
    epilogue = data.draw(st.sampled_from(sorted(EPILOGUES)), "epilogue")
    check(workload, config, EPILOGUES[epilogue])


@pytest.mark.parametrize("template", TEMPLATES)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_space_is_sane(template: str, data: st.DataObject) -> None:
    """It is never empty nor repeats itself, and no price is below what the hardware allows."""
    cpu = data.draw(st.sampled_from(CPUS), "cpu")
    workload = draw_workload(data, template, cpu)
    space = TEMPLATES[template].space(workload, cpu)
    assert 0 < len(space) == len(set(space))
    peak = cpu.peak_gflops * 1e9 * cpu.cores
    for config in space[:: 1 + len(space) // 200]:
        assert implementation_of(config) is TEMPLATES[template]
        assert knobs_fit(workload, config)
        price = predict_seconds(workload, config, cpu)
        assert math.isfinite(price)
        is_free = isinstance(workload, TransformWorkload) and workload.is_free
        assert price >= workload.flops * share_of_products(workload, config) / peak
        assert price > 0 or is_free


def knobs_fit(workload: Workload, config: Config) -> bool:
    if not isinstance(workload, ConvWorkload):
        return True
    before, after = layouts_of(config)
    return before.fits(workload.in_channels) and after.fits(workload.out_channels)


def share_of_products(workload: Workload, config: Config) -> float:
    """Winograd F(4x4, 3x3) needs 36 products for the 144 of a direct convolution."""
    if not isinstance(config, WinogradConfig):
        return 1
    matrices = conv_matrices(workload, config.tile)
    shares = [
        m.products / (m.outputs * taps) for m, taps in zip(matrices, workload.kernel, strict=True)
    ]
    return math.prod(shares)
