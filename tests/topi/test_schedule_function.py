"""Scheduling one function: by its template, by the general rule, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
import tvm
from nests import SKYLAKE
from tvm import te, tirx
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.schedule import SBlockRV
from tvm.script import tirx as T

from tvm_neocpu.core.errors import NeoCpuError, TemplateError
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.conv2d_direct.template import schedule
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule_function import anchor_of, schedule_blocks, schedule_function
from tvm_neocpu.topi.table import register_implementation, unregister_implementation
from tvm_neocpu.topi.tir.tiles.forget_locals import COMPACTED

CONV = ConvWorkload(1, 16, 8, 8, 32, (3, 3), padding=(1, 1, 1, 1))


class BrokenConfig(ConvConfig):
    """A config of the direct template's, computed by an implementation whose schedule fails."""

    template = "broken_conv2d"


def broken_schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """It splits a loop that is split already, as a careless author would."""
    loop = sch.get_loops(anchor.block)[0]
    sch.split(loop, [None, 1])
    sch.parallel(sch.get_loops(anchor.block)[-1])
    return anchor.block


@pytest.fixture
def broken() -> Iterator[BrokenConfig]:
    """The broken implementation is registered for the time of a test."""
    name = BrokenConfig.template
    register_implementation(
        "conv2d", replace(DIRECT, name=name, config_type=BrokenConfig, schedule=broken_schedule)
    )
    yield BrokenConfig(16, 16, 8)
    unregister_implementation(name)


def test_a_template_that_cannot_schedule_is_an_error(broken: BrokenConfig) -> None:
    func = unscheduled(CONV, broken)
    for door in (schedule_function, schedule_blocks):
        with pytest.raises(TemplateError, match="template broken_conv2d cannot schedule") as caught:
            door(func, SKYLAKE)
        text = str(caught.value)
        assert str(CONV) in text and str(broken) in text and "bug of the template" in text
        assert "\n" not in text
        assert isinstance(caught.value.__cause__, ScheduleError)
    assert issubclass(TemplateError, NeoCpuError)


def test_a_kernel_tells_of_it_too(broken: BrokenConfig) -> None:
    with pytest.raises(TemplateError):
        kernel(CONV, broken, SKYLAKE)


def test_an_epilogue_that_cannot_be_scheduled_is_an_error_of_the_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only the template's own steps: whatever is scheduled in a function with an anchor."""

    def fail(*_: object) -> None:
        Schedule(unscheduled(CONV, ConvConfig(16, 16, 8))).get_sblock("nothing")

    monkeypatch.setattr("tvm_neocpu.topi.schedule_function.schedule_behind", fail)
    with pytest.raises(TemplateError, match="conv2d_NCHWc cannot schedule"):
        kernel(CONV, ConvConfig(16, 16, 8), SKYLAKE)


def test_the_template_is_given_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Cpu] = []

    def look(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
        seen.append(cpu)
        return schedule(sch, anchor, cpu)

    entry = replace(DIRECT, schedule=look)
    monkeypatch.setattr("tvm_neocpu.topi.schedule_function.implementation_of", lambda _: entry)
    cpu = Cpu("somebody's", AVX2, cores=7)
    kernel(CONV, ConvConfig(16, 16, 8), cpu)
    assert seen == [cpu]


def test_a_scheduled_function_has_no_anchor() -> None:
    func = unscheduled(CONV, ConvConfig(16, 16, 8))
    anchor = anchor_of(Schedule(func))
    assert anchor is not None and anchor.workload == CONV
    assert anchor_of(Schedule(schedule_blocks(func, SKYLAKE))) is None
    assert "neocpu" not in schedule_function(func, SKYLAKE).without_attr(COMPACTED).script()


def test_rows_of_unknown_count_are_parallel_vectors() -> None:
    rows = tirx.Var("rows", "int64")
    x = te.placeholder((rows, 1024), name="x")
    func = te.create_prim_func([x, te.compute((rows, 1024), lambda i, j: x[i, j] + 1.0)])
    script = schedule_function(func, SKYLAKE).script()
    assert "T.parallel(" in script and "T.vectorized(" in script


@T.prim_func(s_tir=True)
def opaque(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")) -> None:
    T.func_attr({"op_pattern": 8})
    with T.sblock("extern"):
        T.reads(a[0:16])
        T.writes(b[0:16])
        T.evaluate(T.call_extern("int32", "copy", a.data, b.data))


def test_opaque_functions_are_left_alone() -> None:
    tvm.ir.assert_structural_equal(schedule_function(opaque, SKYLAKE), opaque)


def test_what_the_general_rule_cannot_schedule_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The very function: nothing that was scheduled halfway."""

    def fail(sch: Schedule, cpu: Cpu) -> None:
        block = sch.get_child_blocks(sch.get_sblock("root"))[0]
        sch.parallel(sch.get_loops(block)[0])
        sch.get_sblock("nothing")

    monkeypatch.setattr("tvm_neocpu.topi.schedule_function.schedule_generic", fail)
    x = te.placeholder((4, 16), name="x")
    func = te.create_prim_func([x, te.compute((4, 16), lambda i, j: x[i, j] + 1.0)])
    assert schedule_function(func, SKYLAKE).same_as(func)
    assert schedule_blocks(func, SKYLAKE).same_as(func)


def test_attributes_are_kept() -> None:
    x = te.placeholder((4, 16), name="x")
    func = te.create_prim_func([x, te.compute((4, 16), lambda i, j: x[i, j] + 1.0)])
    func = func.with_attr("op_pattern", 0)
    scheduled = schedule_function(func, SKYLAKE)
    assert dict(scheduled.attrs) == dict(func.attrs)
    assert "T.Ramp(T.int64(48), T.int64(1), 16)" in scheduled.script()
    by_template = unscheduled(CONV, ConvConfig(16, 16, 8)).with_attr("op_pattern", 4)
    added = {COMPACTED: 1}
    assert dict(schedule_function(by_template, SKYLAKE).attrs) == dict(by_template.attrs) | added


def test_what_stays_unscheduled_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ReduceMax over channels took six times as long, in silence."""

    def fails(sch: Schedule, cpu: Cpu) -> None:
        raise ScheduleError("The IR is ...\nError message: no reducer matches\nand so on")

    monkeypatch.setattr("tvm_neocpu.topi.schedule_function.schedule_generic", fails)
    x = te.placeholder((4, 16), name="x")
    func = te.create_prim_func([x, te.compute((4, 16), lambda *at: x(*at) + 1.0, "y")])
    with caplog.at_level(logging.WARNING, "tvm_neocpu"):
        assert schedule_function(func, SKYLAKE).same_as(func)
    assert caplog.messages == [
        "an operation is left unscheduled, and may be slow: no reducer matches"
    ]
