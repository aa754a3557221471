"""Calls in their caller's thread: when they are made there, and what they leave behind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tvm_neocpu import Session
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.streams import places
from tvm_neocpu.runtime.streams.cores import allowed_cpus
from tvm_neocpu.runtime.streams.streams import Streams

SECONDS = 20
Array = NDArray[np.float32]


def me(_: object) -> int:
    return threading.get_ident()


@pytest.fixture
def streams() -> Iterator[Streams[object]]:
    made: Streams[object] = Streams([[min(allowed_cpus())]], lambda _: object(), places.as_it_is)
    yield made
    made.close()


def test_an_idle_stream_is_used_in_the_callers_thread(streams: Streams[object]) -> None:
    before = threading.active_count()
    assert streams.call(me) == threading.get_ident()
    assert threading.active_count() == before


def test_a_call_meanwhile_waits_for_the_stream_and_is_not_overtaken(
    streams: Streams[object],
) -> None:
    held, done, order = threading.Event(), threading.Event(), []

    def hold(_: object) -> None:
        held.set()
        assert done.wait(SECONDS)
        order.append("first")

    first = threading.Thread(target=streams.call, args=(hold,))
    first.start()
    assert held.wait(SECONDS)
    waiting = streams.submit(lambda _: order.append("second"))
    deadline = threading.Event()
    while not streams._places[0].is_wanted:
        assert not deadline.wait(0.01)
    late = threading.Thread(target=streams.call, args=(lambda _: order.append("third"),))
    late.start()
    done.set()
    waiting.result(SECONDS)
    for thread in (first, late):
        thread.join(SECONDS)
    assert order == ["first", "second", "third"]


def test_a_call_within_a_call_of_the_same_thread_does_not_wait_for_it(
    streams: Streams[object],
) -> None:
    """A signal's handler may use the session that it interrupts."""
    states = streams.call(lambda outer: streams.call(lambda inner: (outer, inner)))
    assert states[0] is not states[1]
    assert streams.call(lambda state: state) is states[0]


@pytest.mark.usefixtures("hears_ctrl_c")
def test_an_error_and_ctrl_c_leave_the_stream_usable(streams: Streams[object]) -> None:
    with pytest.raises(ZeroDivisionError):
        streams.call(lambda _: 1 / 0)

    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    for _ in range(20):
        with pytest.raises(KeyboardInterrupt):
            streams.call(interrupted)
            # Where a thread of the stream's has run it, Python raises here, when this one goes on.
            time.sleep(1)
    assert streams.call(me) == threading.get_ident()


def test_loops_are_serial_for_the_call_alone() -> None:
    if not places.can_run_serially():
        pytest.skip("this TVM exports no such function")
    functions = places._concurrency()
    assert functions is not None
    read, write = functions
    before = read()
    try:
        write(7)
        assert places.with_serial_loops(lambda _: read())(None) == 1
        assert read() == 7
        with pytest.raises(ZeroDivisionError):
            places.with_serial_loops(lambda _: 1 / 0)(None)
        assert read() == 7
    finally:
        write(before)


@pytest.mark.parametrize("kind", ["built", "from a file"])
def test_a_session_of_one_thread_starts_none(
    kind: str, wide_lib: BuiltModule, tmp_path: Path
) -> None:
    if not places.can_run_serially():
        pytest.skip("this TVM exports no such function")
    library: BuiltModule | Path = wide_lib
    if kind != "built":
        library = tmp_path / "wide.so"
        wide_lib.export_library(library)
    before = threading.active_count()
    image = np.ones((1, 8, 56, 56), "float32")
    with Session(library, threads=1) as session:
        found = session.run({"data": image})["out"]
        assert threading.active_count() == before
        np.testing.assert_array_equal(session.submit({"data": image}).result()["out"], found)
        assert threading.active_count() == before + 1


def test_a_network_without_parallel_loops_needs_no_thread(
    lib: BuiltModule, data: Array, scores: Array, tmp_path: Path
) -> None:
    """However many threads the session has; named cores are kept."""
    lib.export_library(tmp_path / "tiny.so")
    before = threading.active_count()
    has_loops = b"__TVMBackendParallelLaunch" in (tmp_path / "tiny.so").read_bytes()
    with Session(tmp_path / "tiny.so") as session:
        assert session._code().is_serial != has_loops
        if not session._code().is_serial:
            pytest.skip("the small network has parallel loops here")
        np.testing.assert_allclose(session.run({"data": data})["out"], scores, rtol=1e-5)
        assert threading.active_count() == before
    with Session(tmp_path / "tiny.so", cores=[min(allowed_cpus())]) as session:
        session.run({"data": data})
        assert threading.active_count() == before + 1


def test_a_file_with_parallel_loops_is_known_by_its_code(
    wide_lib: BuiltModule, tmp_path: Path
) -> None:
    wide_lib.export_library(tmp_path / "wide.so")
    if wide_lib.info.threads < 2:
        pytest.skip("needs two cores")
    with Session(tmp_path / "wide.so") as session:
        assert not session._code().is_serial


def test_answers_of_small_networks_are_the_callers_own(lib: BuiltModule, data: Array) -> None:
    """The memory that such a network computes in stays from call to call."""
    with Session(lib, threads=1) as session:
        first = session.run({"data": data})["out"]
        kept = first.copy()
        other = session.run({"data": data + 1})["out"]
        assert not np.array_equal(first, other)
        np.testing.assert_array_equal(first, kept)
        first[...] = 0
        np.testing.assert_array_equal(session.run({"data": data})["out"], kept)


def test_a_binding_that_is_bound_anew(lib: BuiltModule, data: Array) -> None:
    """What was checked for the arrays of before does not count."""
    with Session(lib, threads=1) as session:
        binding = session.io_binding()
        binding.input_array("data")[...] = data
        first = binding.output_array("out")
        binding.run()
        binding.run()
        wanted = first.copy()
        second = binding.output_array("out")
        binding.run()
        np.testing.assert_array_equal(second, wanted)
        first[...] = 0
        binding.input_array("data")[...] = data + 1
        binding.run()
        assert not np.array_equal(second, wanted)
        assert not first.any()
