"""Functions that are equal but for names are scheduled once."""

from __future__ import annotations

import tvm_ffi
from tvm import te, tirx

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi import scheduled_before
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.scheduled_before import ScheduledBefore

CPU = parse_target("llvm -mcpu=haswell -num-cores=1").cpu


def doubled(size: int, name: str = "x") -> tirx.PrimFunc:
    x = te.placeholder((size, 16), name=name)
    return te.create_prim_func([x, te.compute(x.shape, lambda i, j: 2.0 * x[i, j], name="y")])


def test_the_same_function_is_scheduled_once(monkeypatch) -> None:
    scheduled: list[tirx.PrimFunc] = []

    def counting(func: tirx.PrimFunc, cpu: object) -> tirx.PrimFunc:
        scheduled.append(func)
        return schedule_function(func, CPU)

    monkeypatch.setattr(scheduled_before, "schedule_function", counting)
    before = ScheduledBefore()
    first, again, other = (before.schedule(doubled(n), CPU) for n in (8, 8, 9))
    assert first.same_as(again)
    assert not first.same_as(other)
    assert len(scheduled) == len(before) == 2
    assert tvm_ffi.structural_equal(first, schedule_function(doubled(8), CPU))


def test_attributes_count() -> None:
    before = ScheduledBefore()
    plain = before.schedule(doubled(8), CPU)
    marked = before.schedule(doubled(8).with_attr("kind", 3), CPU)
    assert "kind" not in (plain.attrs or {})
    assert int(marked.attrs["kind"]) == 3


def test_the_oldest_is_forgotten() -> None:
    before = ScheduledBefore(most=2)
    first = before.schedule(doubled(4), CPU)
    for size in (5, 6):
        before.schedule(doubled(size), CPU)
    assert len(before) == 2
    assert not before.schedule(doubled(4), CPU).same_as(first)


def test_no_method_of_a_schedule_checks_its_arguments_in_python() -> None:
    checked = [name for name in dir(UncheckedSchedule) if _is_wrapped(name)]
    assert checked == []
    sch = UncheckedSchedule(doubled(8))
    block = sch.get_sblock("y")
    row, column = sch.get_loops(block)
    sch.parallel(row)
    sch.vectorize(column)
    assert "T.parallel(8)" in sch.mod.script()


def _is_wrapped(name: str) -> bool:
    method = getattr(UncheckedSchedule, name)
    return callable(method) and hasattr(method, "__wrapped__") and not name.startswith("__")
