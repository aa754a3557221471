"""Implementations as records: what they accept, what fits them, what they are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.types import Types, uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_depthwise.implementation import DEPTHWISE
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_im2col.implementation import IM2COL
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.implementation import WINOGRAD
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.operator import DENSE_PACK
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.operator import MOVE
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import BUILT_IN

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
CONV = ConvWorkload(1, 64, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1))
FLAT = ConvWorkload(8, 64, 1, 1, 64, (1, 1))
DEPTH = replace(CONV, groups=64)
DENSE = DenseWorkload(4, 64, 100)

FITTING = [
    (DIRECT, CONV, ConvConfig(16, 16, 7)),
    (DEPTHWISE, DEPTH, DepthwiseConfig(16, 16, 7)),
    (WINOGRAD, CONV, WinogradConfig(16, 16, 4, 4)),
    (IM2COL, FLAT, Im2colConfig(16, 16, 8)),
    (DENSE_PACK, DENSE, DenseConfig(16, 4)),
    (MOVE, TransformWorkload(1, 64, 14, 14, 16, 8), TransformConfig()),
]
IDS = [entry.name for entry, *_ in FITTING]


@pytest.mark.parametrize(("entry", "workload", "config"), FITTING, ids=IDS)
def test_a_config_of_its_own_fits(
    entry: Implementation, workload: ConvWorkload, config: Config
) -> None:
    assert entry.accepts(workload, SKYLAKE)
    assert entry.fits(workload, config, SKYLAKE)


@pytest.mark.parametrize(
    ("entry", "workload", "config"),
    [
        (DIRECT, CONV, ConvConfig(48, 16, 7)),
        (DIRECT, DEPTH, ConvConfig(1, 1, 7)),  # its guard declines
        (DEPTHWISE, DEPTH, DepthwiseConfig(16, 32, 7)),
        (DEPTHWISE, CONV, DepthwiseConfig(16, 16, 7)),
        (WINOGRAD, CONV, WinogradConfig(16, 16, 9, 4)),
        (WINOGRAD, replace(CONV, dilation=(2, 2)), WinogradConfig(16, 16, 4, 4)),
        (IM2COL, FLAT, Im2colConfig(16, 48, 8)),
        (DENSE_PACK, DENSE, DenseConfig(16, 0)),
        (MOVE, TransformWorkload(1, 60, 14, 14, 16, 8), TransformConfig()),
    ],
)
def test_other_configs_do_not(
    entry: Implementation, workload: ConvWorkload, config: Config
) -> None:
    assert not entry.fits(workload, config, SKYLAKE)


@pytest.mark.parametrize(("entry", "workload", "config"), FITTING, ids=IDS)
def test_types_that_its_code_is_not_right_for_are_declined(
    entry: Implementation, workload: ConvWorkload, config: Config
) -> None:
    for types in (uniform("float16"), Types("float32", "float32", "float64", "float32")):
        assert not entry.accepts(replace(workload, types=types), SKYLAKE)
        assert not entry.fits(replace(workload, types=types), config, SKYLAKE)


def test_winograd_turned_off_fits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = WinogradConfig(16, 16, 2, 4)
    assert WINOGRAD.fits(CONV, config, SKYLAKE)
    monkeypatch.setenv(TILE_LIMIT, "0")
    assert not WINOGRAD.fits(CONV, config, SKYLAKE)
    assert DIRECT.fits(CONV, ConvConfig(16, 16, 7), SKYLAKE)


def test_a_cap_is_obeyed_by_configs_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    six = WinogradConfig(16, 16, 6, 1)
    assert not WINOGRAD.fits(CONV, six, SKYLAKE)
    monkeypatch.setenv(TILE_LIMIT, "6")
    assert WINOGRAD.fits(CONV, six, SKYLAKE)
    monkeypatch.setenv(TILE_LIMIT, "8")
    with pytest.raises(ConfigError, match=TILE_LIMIT):
        WINOGRAD.fits(CONV, six, SKYLAKE)


def test_instruction_sets_limit_an_implementation() -> None:
    neon_only = replace(DIRECT, isas=("neon",))
    assert neon_only.accepts(CONV, Cpu("cortex-a72", NEON, 1))
    assert not neon_only.accepts(CONV, Cpu("haswell", AVX2, 1))
    assert not neon_only.fits(CONV, ConvConfig(16, 16, 7), SKYLAKE)


@pytest.mark.parametrize(
    ("entry", "workload", "config", "label"),
    [
        (DIRECT, CONV, ConvConfig(16, 16, 7), "direct"),
        (WINOGRAD, CONV, WinogradConfig(16, 16, 4, 4), "winograd F(4x4)"),
        (WINOGRAD, replace(CONV, kernel=(1, 7)), WinogradConfig(16, 16, 3, 4), "winograd F(1x3)"),
        (MOVE, TransformWorkload(1, 64, 14, 14, 16, 8), TransformConfig(), "layout_transform"),
    ],
)
def test_what_people_call_it(
    entry: Implementation, workload: ConvWorkload, config: Config, label: str
) -> None:
    assert entry.describe(workload, config) == label


def test_examples_are_texts_that_are_read() -> None:
    for operator, _ in BUILT_IN:
        if operator.parse is not None:
            found = operator.parse(operator.example)
            assert type(found) is operator.workload_type
            assert str(found) == operator.example
