"""The AMX templates' machine code, and what it computes on a CPU that has the unit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import tvm
from samples import HOST, check
from template_workloads import epilogues

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.types import BF16_WEIGHTS, U8S8, Types
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
    misfit,
)
from tvm_neocpu.topi.kernel import kernel

SERVER = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids"
here = pytest.mark.skipif(
    HOST.cpu.matrix is None, reason="this CPU multiplies no tiles; the code was looked at above"
)


def convolution(types: Types, **changes: object) -> ConvWorkload:
    sizes = {"in_channels": 64, "height": 14, "width": 14, "out_channels": 64, "kernel": (3, 3)}
    padding = {"padding": (1, 1, 1, 1)} if "kernel" not in changes else {}
    return ConvWorkload(batch=1, types=types, **{**sizes, **padding, **changes})  # type: ignore[arg-type]


INTEGER = IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=14, reg_m=2, oh_bn=7)
BF16 = Bf16TilesConfig(ic_bn=32, oc_bn=32, reg_n=14, reg_m=2, oh_bn=7)


@pytest.mark.parametrize(
    ("types", "config", "instruction"),
    [(U8S8, INTEGER, "tdpbusd"), (BF16_WEIGHTS, BF16, "tdpbf16ps")],
)
def test_a_step_is_four_products_of_four_tiles(
    types: Types, config: Config, instruction: str
) -> None:
    target = parse_target(SERVER)
    func = kernel(convolution(types), config, target.cpu)
    assembly = tvm.compile(func, target=target.target).mod.inspect_source("asm")
    products, loads = (
        len(re.findall(rf"^\s+{name}\s", assembly, re.MULTILINE))
        for name in (instruction, "tileloadd")
    )
    assert products == loads > 0 and products % 4 == 0
    # Registers have shapes before the first of them is used, and are cleared behind the last one.
    order = [assembly.index(name) for name in ("ldtilecfg", "tilezero", instruction, "tilerelease")]
    assert order == sorted(order)
    assert "vpdpbusd" not in assembly and "vdpbf16ps" not in assembly


def test_linux_is_asked_before_anything_else() -> None:
    """Without its leave a process that touches the registers is ended."""
    target = parse_target(SERVER)
    func = kernel(convolution(U8S8), INTEGER, target.cpu)
    config = {"tirx.disable_assert": True}
    with tvm.transform.PassContext(config=config):
        assembly = tvm.compile(func, target=target.target).mod.inspect_source("asm")
    compute = assembly[assembly.index("main_compute_:") :]
    assert "syscall" in compute[: compute.index("cfi_endproc")]


def test_other_systems_multiply_words() -> None:
    target = parse_target("llvm -mtriple=x86_64-apple-macos -mcpu=sapphirerapids")
    assert target.cpu.matrix is None and target.cpu.dot(U8S8).name == "vpdpbusd"


@here
@pytest.mark.parametrize("words", [16, 13, 32])
@pytest.mark.parametrize(
    ("conv", "reg_m", "reg_n", "oc_bn"),
    [
        (convolution(U8S8), 2, 14, 32),
        (convolution(U8S8), 1, 14, 64),
        (convolution(U8S8, kernel=(1, 1), height=7, width=7), 7, 7, 16),
        (convolution(U8S8, kernel=(1, 1), height=9, width=17), 1, 17, 32),
        (convolution(U8S8, stride=(2, 2), height=15, width=31), 4, 16, 16),
        (convolution(U8S8, kernel=(1, 1), stride=(2, 2), height=13, width=13), 1, 7, 64),
        (convolution(U8S8, pad_value=131), 2, 7, 32),
        (convolution(U8S8, height=7, width=7, pad_value=131), 7, 7, 16),
        (convolution(U8S8, kernel=(3, 3), height=8, width=12), 3, 10, 16),
        (convolution(U8S8, height=6, width=5, padding=(1, 2, 1, 2)), 3, 7, 32),
        # Copies of ten columns, of which nine are read: no run of rows.
        (convolution(U8S8, stride=(2, 2), height=8, width=8), 2, 4, 64),
        (convolution(U8S8, stride=(2, 2), height=8, width=8, pad_value=9), 4, 4, 16),
        # Tiles that overhang the output: across, down, both; of a pair neither is narrower.
        (convolution(U8S8, kernel=(1, 1), height=1, width=201), 1, 51, 16),
        (convolution(U8S8, kernel=(1, 1), height=17, width=17), 3, 17, 16),
        (convolution(U8S8, kernel=(1, 7), height=17, width=35, padding=(0, 3, 0, 3)), 2, 18, 16),
        (convolution(U8S8, stride=(2, 2), height=35, width=35, pad_value=7), 2, 9, 16),
        # Two passes over the filters of a block, and four.
        (convolution(U8S8, height=7, width=7), 7, 7, 32),
        (convolution(U8S8, kernel=(1, 1), height=7, width=7), 7, 7, 64),
        (convolution(U8S8, kernel=(1, 1), stride=(2, 2), height=14, width=14), 7, 7, 32),
        # Passes inside of each of several tiles: whole ones, some that overhang, a strided kernel.
        (convolution(U8S8), 4, 14, 32),
        (convolution(U8S8), 2, 14, 64),
        (convolution(U8S8, height=17, width=35, pad_value=7), 2, 18, 64),
        (convolution(U8S8, stride=(2, 2), height=35, width=35), 4, 9, 32),
    ],
)
def test_tiles_are_exact(
    conv: ConvWorkload, reg_m: int, reg_n: int, oc_bn: int, words: int
) -> None:
    """Overlapping ones, rows that are one run, strided and padded ones; words to fill up."""
    conv = replace(conv, in_channels=4 * words * 2)
    config = IntegerTilesConfig(4 * words, oc_bn, reg_n, True, reg_m, 1, True)
    for epilogue in ("none", "residual"):
        check(conv, config, HOST.cpu, epilogues(conv)[epilogue])


@here
@pytest.mark.parametrize("epilogue", ["none", "swish", "gate"])
@pytest.mark.parametrize("ic_bn", [32, 16, 64])
def test_tiles_of_bf16_are_near(ic_bn: int, epilogue: str) -> None:
    conv = convolution(BF16_WEIGHTS)
    config = Bf16TilesConfig(ic_bn, 32, 14, True, 2, 7)
    check(conv, config, HOST.cpu, epilogues(conv)[epilogue])


@here
@pytest.mark.parametrize(("channels", "lanes"), [(24, 32), (40, 48), (3, 16), (1, 16), (59, 64)])
@pytest.mark.parametrize("types", [U8S8, BF16_WEIGHTS])
def test_blocks_that_fill_tiles(channels: int, lanes: int, types: Types) -> None:
    """Of the sums of a tile some are left behind; rows in a run of a small image, too."""
    conv = replace(convolution(types), out_channels=channels)
    make = IntegerTilesConfig if types == U8S8 else Bf16TilesConfig
    # The last is one run over its border: of four tiles, or of two for each tile of filters.
    run = {16: (7, 7, 7), 32: (4, 4, 4)}.get(lanes, (8, 1, 8))
    for image, reg_m, reg_n in ((14, 1, 14), (17, 1, 9), run):
        shaped = replace(conv, height=image, width=image)
        config = make(32, channels, reg_n, True, reg_m, 4, False, lanes)
        assert misfit(shaped, config) is None
        for epilogue in ("none", "residual" if types == U8S8 else "swish"):
            check(shaped, config, HOST.cpu, epilogues(shaped)[epilogue])


STEMS = [
    (convolution(U8S8, in_channels=3, kernel=(7, 7), stride=(2, 2), padding=(3, 3, 3, 3)), 1, 7),
    (convolution(U8S8, in_channels=3, kernel=(3, 3), height=17, width=30, pad_value=131), 1, 28),
    (convolution(U8S8, in_channels=3, kernel=(3, 3), stride=(2, 2), height=37, width=37), 2, 10),
    (convolution(U8S8, in_channels=1, kernel=(5, 4), stride=(1, 3), padding=(2, 0, 1, 2)), 1, 5),
    (convolution(U8S8, in_channels=4, kernel=(6, 6), stride=(2, 2), padding=(2, 2, 2, 2)), 1, 7),
    # A row of one column, of which the copy leaves no pixel out.
    (convolution(U8S8, in_channels=3, kernel=(1, 1), stride=(2, 2), height=28, width=28), 1, 14),
    (convolution(U8S8, in_channels=4, kernel=(1, 1), stride=(1, 3), height=9, width=22), 2, 8),
]


@here
@pytest.mark.parametrize(("conv", "reg_m", "reg_n"), STEMS)
@pytest.mark.parametrize("parallel_oc", [False, True])
@pytest.mark.parametrize("filled", [False, True])
def test_tiles_of_kernel_rows_are_exact(
    conv: ConvWorkload, reg_m: int, reg_n: int, parallel_oc: bool, filled: bool
) -> None:
    """First convolutions, whose words begin at any byte and end in other pixels."""
    block = (12, 16) if filled else (16, 0)
    conv = replace(conv, out_channels=4 * block[0])
    config = IntegerRowsConfig(0, block[0], reg_n, True, reg_m, 2, parallel_oc, block[1])
    for epilogue in ("none", "residual"):
        check(conv, config, HOST.cpu, epilogues(conv)[epilogue])


@here
@pytest.mark.parametrize(("conv", "reg_m", "reg_n"), STEMS)
def test_tiles_of_kernel_rows_of_bf16_are_near(conv: ConvWorkload, reg_m: int, reg_n: int) -> None:
    conv = replace(conv, types=BF16_WEIGHTS, pad_value=0)
    config = Bf16RowsConfig(0, 32, reg_n, True, reg_m, 2)
    for epilogue in ("none", "swish"):
        check(conv, config, HOST.cpu, epilogues(conv)[epilogue])
