"""Short steps share requests: fewer prefetches, for the same lines."""

from __future__ import annotations

import pytest
from prefetches import asked_for, lines_of
from tvm import tirx
from tvm.ir import Expr
from tvm.tirx import For

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.cost.roofline import MAX_GROUP
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir import order
from tvm_neocpu.topi.tir.loops.affine import replaced
from tvm_neocpu.topi.tir.prefetch import group_requests

ZEN3 = Cpu("znver3", AVX2, cores=1)
ZEN5 = Cpu("znver5", AVX512, cores=1)
# Data and weights of 200 and 256 KiB.
CONV = ConvWorkload(1, 256, 14, 14, 256, (1, 1))
SHORT = ConvConfig(64, 16, 2, reg_m=2, oh_bn=7)


def requests(conv: ConvWorkload, config: ConvConfig, cpu: Cpu, name: str) -> list:
    return asked_for(schedule_blocks(unscheduled(conv, config), cpu), name)


def first_lines(loops: tuple[For, ...], element: Expr, inner: int) -> set[int]:
    """Lines that the innermost loops ask for, the others at their beginning."""
    begin = {loop.loop_var: tirx.const(0, "int32") for loop in loops[:-inner]}
    return lines_of(loops[-inner:], replaced(element, begin))


def passes(loops: tuple[For, ...]) -> int:
    """Passes of the innermost loop around a request, in one walk over a block of channels."""
    return int(loops[-1].extent)


@pytest.mark.parametrize("name", ["data", "weight"])
def test_a_group_of_short_steps_asks_once(name: str) -> None:
    ((loops, _),) = requests(CONV, SHORT, ZEN3, name)
    assert passes(loops) == SHORT.ic_bn // MAX_GROUP


@pytest.mark.parametrize("name", ["data", "weight"])
def test_the_same_lines_are_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # 128 KiB of data and of weights, the least that is asked for.
    small = ConvWorkload(1, 128, 16, 16, 256, (1, 1))
    config = ConvConfig(64, 16, 4, oh_bn=8)
    (shared,) = requests(small, config, ZEN3, name)
    monkeypatch.setattr(group_requests, "steps_in_group", lambda *_: 1)
    (alone,) = requests(small, config, ZEN3, name)
    assert passes(shared[0]) < passes(alone[0])
    # The loops over a row's tiles, blocks of channels and steps.
    assert first_lines(*shared, inner=4) == first_lines(*alone, inner=4)


@pytest.mark.parametrize(
    ("config", "cpu"),
    [
        pytest.param(ConvConfig(64, 32, 14), ZEN5, id="28 multiply-adds"),
        pytest.param(ConvConfig(64, 8, 14), ZEN3, id="kept rolled"),
    ],
)
def test_other_steps_ask_for_themselves(config: ConvConfig, cpu: Cpu) -> None:
    for loops, _ in requests(CONV, config, cpu, "weight"):
        assert passes(loops) == config.ic_bn


def test_no_note_is_left() -> None:
    script = schedule_blocks(unscheduled(CONV, SHORT), ZEN3).script()
    assert group_requests.LINES_KEY not in script


def test_groups_are_made_of_finished_requests() -> None:
    at = order.TEMPLATE_REWRITES.index
    assert at(order.plant_prefetches) < at(group_requests.group_requests)
    assert at(group_requests.group_requests) < at(order.plant_fake_uses)
