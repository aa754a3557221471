"""The conformance suite of templates: each computes what its operator's reference does.

It asks the records: which operators there are, what they read, who implements them. A new
implementation is tested as soon as it is in the table.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import HOST, check
from template_draws import draw_workload
from template_workloads import (
    EPILOGUES,
    FP64,
    PRICED_ONLY,
    TEMPLATES,
    WORKLOADS,
    epilogues,
    favourite,
)

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, KIB, NEON, Cpu
from tvm_neocpu.core.machine.dot import (
    PORTABLE_2,
    PORTABLE_4,
    PORTABLE_BF16,
    PORTABLE_SIGNED_4,
    SMLAL,
)
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.network.candidate import has_blocks, layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_PRODUCTS, FP32, INTEGER_PRODUCTS, U8S8, Types
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import Bf16TilesConfig, IntegerTilesConfig
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.conv2d_split.space import gains_on
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.matrices import conv_matrices
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.table import implementation_of, implementations, operators

# Spaces and schedules are those of three machines, code is this one's.
# The first two multiply words of bf16 by plain arithmetic, in the shapes of vdpbf16ps.
PLAIN = (PORTABLE_4, PORTABLE_2, PORTABLE_BF16)
# So do loops over words, in the shapes of a matrix unit's tiles.
UNIT = MatrixUnit((U8S8, *BF16_PRODUCTS), is_plain=True)
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2, dots=PLAIN, matrix=UNIT)
HASWELL = Cpu("haswell", AVX2, cores=4, l2=256 * KIB, dots=PLAIN)
CORTEX = Cpu("cortex-a72", NEON, cores=1, dots=(SMLAL,))
# As with sdot, which no other CPU has: signed bytes by plain arithmetic.
SIGNED = Cpu("neoverse-n1", NEON, cores=2, dots=(PORTABLE_SIGNED_4, SMLAL))
# As with vpmaddubsw: words of bytes for small weights only, by plain arithmetic.
SMALL_4 = replace(PORTABLE_4, name="small_dot4", weight_bits=7)
BYTES = Cpu("haswell", AVX2, cores=2, dots=(SMALL_4, PORTABLE_2), l2=256 * KIB)
# Integers are multiplied by plain arithmetic in the shapes of VNNI on the first two, by NEON's
# halves on the third (which LLVM compiles for any CPU), and here by this CPU's own instruction.
HERE = HOST.cpu
CPUS = (SKYLAKE, HASWELL, CORTEX, SIGNED, BYTES, HERE)


CASES = [
    pytest.param(entry.name, workload, cpu, epilogue, id=f"{entry.name}-{cpu.isa.name}-{shape}")
    for shape, workload in WORKLOADS.items()
    for cpu, epilogue in ((SKYLAKE, "residual"), (HASWELL, "gate"), (CORTEX, "none"))
    for entry in implementations(workload, cpu)
] + [
    pytest.param(entry.name, workload, cpu, "residual", id=f"{entry.name}-{name}-{shape}")
    for shape, workload in WORKLOADS.items()
    if workload.types in INTEGER_PRODUCTS
    for name, cpu in (("here", HERE), ("signed", SIGNED), ("bytes", BYTES))
    for entry in implementations(workload, cpu)
    if cpu is HERE or workload.types == U8S8
]


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
    "one output",
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
    assert {PRICED_ONLY, *map(type, WORKLOADS.values())} == {
        operator.workload_type for operator in operators()
    }


def test_every_template_of_doubles_is_tested_with_them() -> None:
    of_doubles = {name for name, entry in TEMPLATES.items() if FP64 in entry.types}
    assert {case.values[0] for case in DOUBLE_CASES} == of_doubles
    of_integers = {name for name, entry in TEMPLATES.items() if FP32 not in entry.types}
    assert of_doubles == set(TEMPLATES) - {WinogradConfig.template} - of_integers
    narrow = {*INTEGER_PRODUCTS, *BF16_PRODUCTS}
    assert all(set(TEMPLATES[name].types) <= narrow for name in of_integers)


def cpus_of(template: str) -> list[Cpu]:
    """Those that a template is for, where it is not for all."""
    if template == SplitConfig.template:
        return [cpu for cpu in CPUS if gains_on(cpu)]
    if issubclass(TEMPLATES[template].config_type, IntegerTilesConfig | Bf16TilesConfig):
        types = set(TEMPLATES[template].types)
        return [cpu for cpu in CPUS if cpu.matrix is not None and types <= {*cpu.matrix.types}]
    needs_bf16 = set(TEMPLATES[template].types) <= set(BF16_PRODUCTS)
    return [cpu for cpu in CPUS if cpu.bf16 is not None or not needs_bf16]


@pytest.mark.parametrize("template", TEMPLATES)
@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_any_config_of_any_workload(template: str, data: st.DataObject) -> None:
    cpu = data.draw(st.sampled_from(cpus_of(template)), "cpu")
    workload = draw_workload(data, template, cpu)
    config = data.draw(st.sampled_from(TEMPLATES[template].space(workload, cpu)), "config")
    known = epilogues(workload)
    epilogue = data.draw(st.sampled_from(sorted(known)), "epilogue")
    check(workload, config, cpu, known[epilogue])


def test_words_of_one_lane() -> None:
    """LLVM summed the bytes of single words wrongly where shifts took them apart."""
    conv = ConvWorkload(1, 24, 2, 13, 2, (1, 1), (1, 3), types=U8S8)
    config = SplitConfig(ic_bn=8, oc_bn=1, reg_n=5)
    check(conv, config, BYTES, epilogues(conv)["residual"])


@pytest.mark.parametrize("cpu", [SKYLAKE, BYTES, HERE], ids=["words", "bytes", "here"])
@pytest.mark.parametrize(("channels", "groups"), [(2, 2), (16, 16), (16, 1)])
def test_a_row_of_padding_alone(cpu: Cpu, channels: int, groups: int) -> None:
    """TVM reads no image there, and LLVM got a zero that it was to take apart."""
    padding = (0, 0, 1, 0)
    conv = ConvWorkload(
        1, channels, 1, 2, channels, (2, 1), padding=padding, groups=groups, types=U8S8
    )
    template = "conv2d_NCHWc_int" if groups == 1 else "depthwise_conv2d_NCHWc"
    space = TEMPLATES[template].space(conv, cpu)
    for config in space[:: 1 + len(space) // 3]:
        check(conv, config, cpu, epilogues(conv)["bias"])


@pytest.mark.parametrize("template", TEMPLATES)
@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_a_space_is_sane(template: str, data: st.DataObject) -> None:
    """It is never empty nor repeats itself, and no price is below what the hardware allows."""
    cpu = data.draw(st.sampled_from(cpus_of(template)), "cpu")
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
    """Winograd F(4x4, 3x3) needs 36 products for the 144 of a direct convolution, and a direct one
    leaves out those with padding.
    """
    direct = type(config) in (ConvConfig, Bf16Config, IntegerConfig)
    if isinstance(workload, ConvWorkload) and direct:
        return DirectGeometry(workload, ConvConfig(1, 1, reg_n=1)).share_of_taps
    if not isinstance(config, WinogradConfig):
        return 1
    matrices = conv_matrices(workload, config.tile)
    shares = [
        m.products / (m.outputs * taps) for m, taps in zip(matrices, workload.kernel, strict=True)
    ]
    return math.prod(shares)
