"""Short trips go together: all are made once, long ones and those of a few stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from nests import SKYLAKE, nest_of
from tvm import te, tirx

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.tir.functions.group_trips import ENOUGH, TRIPS_A_CORE, group_trips


def copied(trips: int, inner: int, parallel: bool = True) -> tirx.PrimFunc:
    """Rows of a copy, each one trip."""
    data = te.placeholder((trips, inner), name="data")
    out = te.compute((trips, inner), lambda i, j: data[i, j] + 1.0, name="out")
    sch = tvm.s_tir.Schedule(te.create_prim_func([data, out]))
    rows, _ = sch.get_loops(sch.get_sblock("out"))
    if parallel:
        sch.parallel(rows)
    return sch.mod["main"]


@pytest.mark.parametrize(
    ("trips", "inner", "expected"),
    [
        (12544, 1, "parallel 49, 256"),
        (12544, 2, "parallel 98, 128, 2"),
        # Not enough for so many calls: as many as leave each core its trips.
        (320, 1, "parallel 32, 10"),
        # Long trips, trips that no number divides, trips too few to be shared out in groups.
        (4096, ENOUGH, f"parallel 4096, {ENOUGH}"),
        (8191, 1, "parallel 8191"),
        (2 * TRIPS_A_CORE, 3, f"parallel {2 * TRIPS_A_CORE}, 3"),
    ],
)
def test_trips_of_a_call(trips: int, inner: int, expected: str) -> None:
    assert nest_of(group_trips(copied(trips, inner), SKYLAKE), "out") == expected


def test_serial_loops_and_unknown_extents_stay() -> None:
    rows = te.var("n", "int64")
    data = te.placeholder((rows, 4), name="data")
    out = te.compute((rows, 4), lambda i, j: data[i, j] + 1.0, name="out")
    sch = tvm.s_tir.Schedule(te.create_prim_func([data, out]))
    sch.parallel(sch.get_loops(sch.get_sblock("out"))[0])
    for func in (sch.mod["main"], copied(4096, 1, parallel=False)):
        assert tvm_ffi.structural_equal(group_trips(func, SKYLAKE), func)


def test_trips_with_a_choice_stay() -> None:
    """A trip finds once which of two tensors it copies."""
    one, other = (te.placeholder((4000, 4), name=name) for name in ("one", "other"))
    out = te.compute(
        (4000, 4),
        lambda i, j: tirx.if_then_else(i < 1600, one[i, j], other[i, j]),
        name="out",
    )
    sch = tvm.s_tir.Schedule(te.create_prim_func([one, other, out]))
    sch.parallel(sch.get_loops(sch.get_sblock("out"))[0])
    assert tvm_ffi.structural_equal(group_trips(sch.mod["main"], SKYLAKE), sch.mod["main"])


def test_every_trip_is_made_once() -> None:
    data = np.random.default_rng(0).random((6000, 3), "float32")
    out = tvm.runtime.empty(data.shape, "float32")
    func = group_trips(copied(*data.shape), SKYLAKE)
    tvm.compile(func, target=parse_target().target)(tvm.runtime.tensor(data), out)
    np.testing.assert_array_equal(out.numpy(), data + 1)
