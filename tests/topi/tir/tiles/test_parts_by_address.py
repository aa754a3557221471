"""Copies of a concat's parts: one loop over addresses, however many parts there are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from nests import SKYLAKE
from tvm import te, tirx

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.schedule import prologue
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.topi.tir.functions.serial_where_small import serial_where_small
from tvm_neocpu.topi.tir.tiles.parts_by_address import PARTS_KEY

CHOICE, ADDRESS = "if_then_else", "tvm_struct_get"
CHUNKED = ConvConfig(16, 16, 5, oh_bn=2)


def behind_concat(config: Config, parts: int, batch: int = 1) -> tirx.PrimFunc:
    """The scheduled function of a pointwise convolution that reads parts of 16 and 32 channels."""
    blocks = [1 + at % 2 for at in range(parts)]
    conv = ConvWorkload(batch, 16 * sum(blocks), 6, 5, 32, (1, 1))
    stages = [te.placeholder((batch, n, 6, 5, 16), name=f"x{at}") for at, n in enumerate(blocks)]
    data = prologue.compute(stages, [("relu", None)])
    w = te.placeholder(implementation_of(config).packed_shape(conv, config), name="w")
    result = implementation_of(config).compute(data, w, conv, config)
    return schedule_function(te.create_prim_func([*stages, w, result]), SKYLAKE)


@pytest.mark.parametrize(
    ("config", "batch"),
    [
        pytest.param(CHUNKED, 1, id="chunks of rows"),
        pytest.param(CHUNKED, 2, id="two images"),
        pytest.param(ConvConfig(16, 16, 5, parallel_oc=True), 1, id="a pass of its own"),
        pytest.param(Im2colConfig(16, 16, 5, 3), 1, id="columns"),
        pytest.param(Im2colConfig(16, 16, 5, 6, parallel_oc=True), 1, id="all columns at once"),
    ],
)
def test_a_copy_reads_the_address_of_its_block(config: Config, batch: int) -> None:
    script = behind_concat(config, 3, batch).script()
    assert script.count(ADDRESS) == 1 and CHOICE not in script and PARTS_KEY not in script
    assert script.count("tvm_struct_set") == 4, "an address for each block of channels"


def test_more_parts_are_no_more_loops() -> None:
    few, many = (behind_concat(CHUNKED, parts).script() for parts in (2, 9))
    assert few.count(" in T.") == many.count(" in T.")


@pytest.mark.parametrize("split", [False, True])
def test_small_copies_run_on_one_core(split: bool) -> None:
    """What they take is known, although they read by address; a fork takes a second here."""
    cpu = replace(SKYLAKE.with_cores(2), fork_join=1.0)
    func = behind_concat(ConvConfig(16, 16, 5, parallel_oc=split), 3)
    assert "T.parallel" in func.script()
    small = serial_where_small(func, cpu)
    assert "T.parallel" not in small.script()
    tvm.compile(small, target=tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}))


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(ConvConfig(16, 16, 5, parallel_oc=True), id="rows of all images are one loop"),
        pytest.param(Im2colConfig(16, 16, 5, 12), id="a chunk has pixels of two images"),
    ],
)
def test_images_inside_the_loop_have_no_common_address(config: Config) -> None:
    script = behind_concat(config, 3, batch=2).script()
    assert ADDRESS not in script and CHOICE in script and PARTS_KEY not in script
