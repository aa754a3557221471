"""What the clock inside a network takes, and what is left of a call without it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, te

from tvm_neocpu.tuning.in_network.processes.clock import (
    Times,
    argument_seconds,
    measure_overheads,
    overheads_of,
)
from tvm_neocpu.tuning.in_network.processes.watch import NOTHING, TimedCall, WatchedNetwork


def test_what_the_clock_and_the_machine_take() -> None:
    """A run of calls of 2 us, whose arguments take 0.1 us each and under the clock 0.4 more."""
    run, call, idle = 5e-6, 1e-6, 3e-7

    def times(calls: int, arguments: int) -> Times:
        adding = 2e-6 + 1e-7 * arguments
        watched = adding + idle + 4e-7 * arguments
        return Times(calls, arguments, run + calls * (call + adding), watched)

    found = overheads_of(times(20, 3), times(20, 13), times(1, 3), idle)
    assert found.argument == pytest.approx(4e-7)
    assert found.machine(0) == pytest.approx(run) and found.machine(10) == pytest.approx(15e-6)


def test_overheads_are_never_below_nothing() -> None:
    """On a busy machine a reading may be longer than one that has it as a part."""
    found = overheads_of(Times(20, 3, 1e-3, 2e-6), Times(20, 13, 2e-3, 1e-6), Times(1, 3, 1, 1), 0)
    assert found.argument == found.call == 0 and found.run >= 0
    assert measure_overheads().machine(20) >= 0


def test_a_calls_own_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two calls of one function, beside a call that does nothing."""
    x = relax.Var("x", relax.TensorType([4], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        data = te.placeholder((4,), name="data")
        func = te.create_prim_func([data, te.compute((4,), lambda i: data[i] + 1)])
        add, found = builder.add_func(func.with_attr("global_symbol", "add"), "add"), x
        for _ in range(2):
            found = builder.emit(relax.call_tir(add, [found], x.ty))
        builder.emit_func_output(found)
    code = tvm.compile(builder.get(), tvm.target.Target({"kind": "llvm"})).mod
    inputs = [tvm.runtime.tensor(np.zeros(4, "float32"))]
    traced = WatchedNetwork(code, inputs, 0.0).trace()
    assert [call.arguments for call in traced if call.name == "add"] == [2, 2]

    def trace(self: WatchedNetwork) -> list[TimedCall]:
        return [
            TimedCall(NOTHING, 0.0, 1e-6),
            TimedCall("add", 0.0, 9e-6, 2),
            TimedCall("add", 0.0, 3e-6, 2),
        ]

    monkeypatch.setattr(WatchedNetwork, "trace", trace)
    assert WatchedNetwork(code, inputs, 0.5e-6).timed() == {"add": pytest.approx(8e-6)}
    assert WatchedNetwork(code, inputs, 3e-6).timed() == {"add": pytest.approx(2e-6)}
    assert WatchedNetwork(code, inputs, 9e-6).timed()["add"] > 0


def test_it_is_measured_once() -> None:
    assert argument_seconds() == argument_seconds() >= 0
