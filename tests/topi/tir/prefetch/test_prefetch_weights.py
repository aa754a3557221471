"""Prefetches of weights: where they are planted, and what they ask for."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tvm import tirx
from tvm.tirx import For, Stmt

from tests.support.cpus import ZEN_3
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.cost.roofline import MIN_PREFETCHED_BYTES
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body

CPU = Cpu("skylake-avx512", AVX512, cores=2)
DEEP = ConvWorkload(1, 64, 6, 6, 128, (3, 3), padding=(1, 1, 1, 1))
# Of whole tiles of 4.
WHOLE = ConvWorkload(1, 64, 8, 8, 128, (3, 3), padding=(1, 1, 1, 1))
POINT = ConvWorkload(1, 256, 4, 6, 256, (1, 1))
SMALL = ConvWorkload(1, 16, 6, 6, 32, (3, 3), padding=(1, 1, 1, 1))
CASES = [
    pytest.param(DEEP, ConvConfig(32, 32, 6, True, 1, 6), id="tiles of rows share a panel"),
    pytest.param(DEEP, ConvConfig(16, 64, 3, False, 2, 1, True), id="chunks share a panel"),
    pytest.param(DEEP, ConvConfig(64, 16, 6, True, 3, 2), id="one vector a tile"),
    pytest.param(POINT, ConvConfig(64, 32, 6, True, 4, 1), id="one tile walks a panel"),
    pytest.param(POINT, ConvConfig(32, 32, 6, True, 1, 1, True), id="rows in parallel chunks"),
    pytest.param(DEEP, WinogradConfig(64, 32, 2, 3, 1, 3), id="winograd"),
    pytest.param(WHOLE, WinogradConfig(32, 64, 4, 2, 2, 2), id="winograd, one tile"),
]


def planted(func: tirx.PrimFunc) -> list[tuple[tuple[For, ...], Stmt]]:
    """(loops around it, body) of every loop that requests a prefetch itself."""
    found = []

    def look(loop: For, body: Stmt, outer: tuple[For, ...]) -> For:
        if requests(body):
            found.append(((*outer, loop), body))
        return with_body(loop, body)

    rewrite_loops(func, look)
    return found


def requests(body: Stmt) -> list[Any]:
    """The tensor elements whose lines the statements of a sequence ask for."""
    parts = list(body) if isinstance(body, tirx.SeqStmt) else []
    blocks = [part.block for part in parts if hasattr(part, "block")]
    return [block.body.value.args[0].args[0] for block in blocks if block.name_hint == "prefetch"]


def lines_by_panel(workload: ConvWorkload, config: Config) -> dict[int, set[int]]:
    """For each panel, the lines requested while it is multiplied, from the weights' beginning."""
    ((loops, body),) = planted(kernel(workload, config, CPU))
    shape = implementation_of(config).packed_shape(workload, config)
    panel = panel_floats(config, shape)
    names = [loop.loop_var.name for loop in loops]
    found: dict[int, set[int]] = {}
    for element in requests(body):
        code = compile(", ".join(f"({index})" for index in element.indices), "indices", "eval")
        for values in product(*(range(int(loop.extent)) for loop in loops)):
            position = 0
            at = eval(code, {}, dict(zip(names, values, strict=True)))
            for extent, index in zip(shape, at, strict=True):
                position = position * extent + index
            current = position_of_panel(shape, at, config)
            found.setdefault(current, set()).add((position - (current + 1) * panel) * 4)
    return found


def panel_floats(config: Config, shape: tuple[int, ...]) -> int:
    """What follows the loops over output channels (and, in Winograd, over the tile's elements)."""
    outside = 3 if isinstance(config, WinogradConfig) else 1
    floats = 1
    for extent in shape[outside:]:
        floats *= extent
    return floats


def position_of_panel(shape: tuple[int, ...], at: tuple[int, ...], config: Config) -> int:
    outside = 3 if isinstance(config, WinogradConfig) else 1
    position = 0
    for extent, index in zip(shape[:outside], at[:outside], strict=True):
        position = position * extent + index
    return position


@pytest.mark.parametrize(("workload", "config"), CASES)
def test_while_a_panel_is_multiplied_every_line_of_the_next_is_requested(
    workload: ConvWorkload, config: Config
) -> None:
    shape = implementation_of(config).packed_shape(workload, config)
    panel_bytes = 4 * panel_floats(config, shape)
    panels = lines_by_panel(workload, config)
    assert len(panels) * panel_bytes > MIN_PREFETCHED_BYTES
    for offsets in panels.values():
        assert min(offsets) == 0
        assert offsets >= set(range(0, panel_bytes, CPU.line))
        # Rounding asks for some more, but for no second panel.
        assert max(offsets) < 2 * panel_bytes


@pytest.mark.parametrize(
    "channels", [pytest.param(192, id="pairs"), pytest.param(208, id="one left")]
)
def test_a_tile_of_several_panels_asks_for_those_of_the_next_tile(channels: int) -> None:
    """Two panels of 256 lines lie side by side, and count as one."""
    conv = ConvWorkload(1, 256, 14, 14, channels, (1, 1))
    func = kernel(conv, Im2colConfig(16, 16, 14, 14, reg_o=2), CPU)
    ((loops, body),) = planted(func)
    (element,) = requests(body)
    names = [loop.loop_var.name for loop in loops]
    code = compile(", ".join(f"({index})" for index in element.indices), "indices", "eval")
    asked: dict[int, set[int]] = {}
    for values in product(*(range(int(loop.extent)) for loop in loops)):
        step = dict(zip(names, values, strict=True))
        panel, *inside, lane = eval(code, {}, step)
        assert inside == [0, 0]
        asked.setdefault(step["o_0"], set()).add(256 * panel + lane // 16)
    assert len(asked) == -(-channels // 32)
    for pair, lines in asked.items():
        first = 512 * (pair + 1)
        assert set(range(first, first + 512)) <= lines <= set(range(first, first + 1024))


def test_small_weights_stay_in_the_cache_anyway() -> None:
    assert planted(kernel(SMALL, ConvConfig(16, 16, 6), CPU)) == []


def test_nothing_is_asked_of_a_step_that_has_too_little_to_do() -> None:
    """One tile of four pixels by four vectors: a prefetch for every vector, and no more."""
    conv = ConvWorkload(1, 256, 2, 2, 256, (1, 1))
    ((_, body),) = planted(kernel(conv, ConvConfig(64, 64, 2, True, 2, 1, True), CPU))
    assert len(requests(body)) == 4


def test_the_mark_does_not_stay() -> None:
    ((loops, _),) = planted(kernel(DEEP, ConvConfig(32, 32, 6, True, 1, 6), CPU))
    assert not any(loop.annotations for loop in loops)


# Steps read two words, and a panel has fewer lines than tiles and steps walk it.
WORDS = [
    pytest.param(SplitConfig(16, 8, 7, reg_m=1, oh_bn=14), id="a line for some of the steps"),
    pytest.param(SplitConfig(8, 8, 1, reg_m=1, oh_bn=14), id="a line for some of the tiles"),
    pytest.param(SplitConfig(32, 8, 7, reg_m=2, oh_bn=14), id="steps share a request"),
]


@pytest.mark.parametrize("config", WORDS)
def test_words_of_split_data(config: SplitConfig) -> None:
    """Both ways through a block ask, and for the next panel alone."""
    conv = ConvWorkload(1, 64, 14, 14, 2048, (1, 1), types=U8S8)
    places = planted(kernel(conv, config, ZEN_3))
    assert len(places) == 2
    panel_bytes = 64 * config.oc_bn
    for loops, body in places:
        (element,) = requests(body)
        code = compile(str(element.indices[-1]), "index", "eval")
        names = [loop.loop_var.name for loop in loops]
        extents = [range(int(loop.extent)) for loop in loops]
        beyond = {
            4 * eval(code, {}, dict(zip(names, at, strict=True))) - panel_bytes
            for at in product(*extents)
        }
        assert beyond >= set(range(0, panel_bytes, ZEN_3.line))
        assert max(beyond) < 2 * panel_bytes
