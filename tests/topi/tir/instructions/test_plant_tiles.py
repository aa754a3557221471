"""Before and after: a reduction over words becomes instructions of a matrix unit."""

from __future__ import annotations

import re
from dataclasses import replace

import tvm
from tvm.script import tirx as T

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import IntegerTilesConfig
from tvm_neocpu.topi.conv2d_amx.implementation import INTEGER_TILES
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.instructions.plant_tiles import plant_tiles

CPU = Cpu("emeraldrapids", AVX512, 1, matrix=MatrixUnit((U8S8,)))
CONV = ConvWorkload(1, 128, 1, 28, 32, (1, 1), types=U8S8)
CONFIG = IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=28)


def lines(cpu: Cpu, conv: ConvWorkload = CONV, config: IntegerTilesConfig = CONFIG) -> list[str]:
    """What the scheduled function does in order, without blocks, indices and types."""
    func = schedule_blocks(unscheduled(conv, config), cpu)
    return [line.strip() for line in func.script().splitlines()]


def calls(cpu: Cpu) -> list[str]:
    """The instructions, with the buffers whose elements they take the address of."""
    found = []
    for line in lines(cpu):
        if line.startswith("for ico"):
            found.append("for ico:")
        if "llvm.x86." in line:
            name, _, operands = line.partition("llvm.x86.")[2].replace('")', '", ').partition('", ')
            found.append(f"{name}({operands})".replace("T.uint8", "").replace("T.int64", ""))
    return found


def test_a_reduction_becomes_products_of_tiles() -> None:
    """Two tiles of 14 pixels times two of 16 filters; 64 channels lie in a row."""
    names = [call.split("(")[0] for call in calls(CPU)]
    step = [
        *("tileloadd64", "tileloadd64"),
        *("tileloadd64", "tdpbusd", "tdpbusd"),
        *("tileloadd64", "tdpbusd", "tdpbusd"),
    ]
    assert names == [
        "ldtilecfg",
        *["tilezero"] * 4,
        "for ico:",
        *step,
        *["tilestored64"] * 4,
        "tilerelease",
    ]


def test_registers_and_addresses() -> None:
    _, _, loop = " ".join(calls(CPU)).partition("for ico:")
    assert "tdpbusd((0), (4), (6)))" in loop and "tdpbusd((3), (5), (7)))" in loop
    # The second tile of filters, and of pixels; a row of words of 32 filters, of 64 channels.
    assert re.search(r"tileloadd64\(\(7\), T.address_of\(weight\[.*?, 0, 16\]\), \(128\)", loop)
    assert re.search(r"tileloadd64\(\(5\), T.address_of\(data\[.*? \+ 14.*?\]\), \(64\)", loop)
    assert re.search(r"tilestored64\(\(3\), T.address_of\(conv2d_acc.* 16\]\), \(128\)", loop)


def test_shapes_of_the_registers() -> None:
    """Byte 0 is the format; 16 and on the rows' bytes; 48 and on the rows of each of 8 tiles."""
    stores = [line for line in lines(CPU) if line.startswith("matrix_shapes[")]
    words = [int(line.partition("= ")[2]) for line in stores]
    stored = b"".join(word.to_bytes(4, "little") for word in words)
    assert len(stored) == 64 and stored[0] == 1
    assert stored[16:32] == (64).to_bytes(2, "little") * 8
    assert list(stored[48:56]) == [14] * 4 + [14] * 2 + [16] * 2


def test_tiles_that_run_on_leave_sums_between_rows_behind() -> None:
    """61 pixels of a padded 7x7 image: tiles of 16 from 0, 16, 32 and 45 on, 9 to a row."""
    conv = replace(CONV, height=7, width=7, kernel=(3, 3), padding=(1, 1, 1, 1))
    found = lines(CPU, conv, IntegerTilesConfig(ic_bn=64, oc_bn=16, reg_n=7, reg_m=7))
    stored = [line for line in found if "tilestored64" in line]
    starts = [re.search(r"matrix_run\[(\d+), 0\]", line).group(1) for line in stored]
    assert starts == ["0", "16", "32", "45"]
    (picked,) = [line for line in found if " = matrix_run[" in line]
    assert picked.startswith("conv2d_acc_local[") and "[y * T.int64(9) + x, lane]" in picked
    assert sum("tdpbusd" in line for line in found) == 4


def test_a_pass_reads_weights_of_its_own() -> None:
    """Two passes over the 32 filters of a block, inside of a tile; each asks for the next one's
    panel."""
    conv = replace(CONV, in_channels=1024, height=7, width=7, out_channels=512)
    config = IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=7, reg_m=7)
    assert INTEGER_TILES.packed_shape(conv, config) == (32, 16, 1, 1, 16, 16)
    found = lines(CPU, conv, config)
    (load,) = [line for line in found if "tileloadd64" in line and "weight[" in line]
    assert "weight[i1 * 2 + T.Add(i4_0 * 16, 0) // 16, ico" in load
    asked = [line for line in found if "prefetch(" in line and "weight[" in line]
    assert asked and all("weight[i1 * 2 + i4_0, 0" in line for line in asked)


def test_tiles_that_walk_the_panels_of_a_block_ask_for_the_next_block() -> None:
    """Each of 7 tiles asks for a part of the next block's two panels, 8192 words further on."""
    conv = replace(CONV, in_channels=1024, height=28, width=16, out_channels=512)
    config = IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=16, reg_m=4, oh_bn=7)
    found = lines(CPU, conv, config)
    asked = [line for line in found if "prefetch(" in line and "weight[" in line]
    begin = "weight[T.Add(i1 * 2, 0), 0, 0, 0, 0, 8192 + ("
    assert len(asked) == 3 and all(begin in line for line in asked)
    # Seven chunks of one row of tiles share a block, and ask for as many lines together.
    dealt = lines(CPU, conv, replace(config, oh_bn=1, parallel_oc=True))
    assert sum("prefetch(" in line and "weight[" in line for line in dealt) == 3


def test_loops_stand_in_for_a_unit_that_is_not_there() -> None:
    plain = replace(CPU, matrix=replace(CPU.matrix, is_plain=True))
    assert not calls(plain)[1:] and not any("neocpu.matrix" in line for line in lines(plain))


def test_other_functions_stay_as_they_are() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("copy"):
                at = T.axis.spatial(4, i)
                y[at] = x[at]

    assert isinstance(func, tvm.tirx.PrimFunc)
    assert plant_tiles(func, CPU).same_as(func)
