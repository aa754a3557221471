"""Threads, streams and cores of sessions: every number answers alike, bad ones are one line."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx_node import onnx_runtime

import tvm_neocpu
from tvm_neocpu import Session
from tvm_neocpu.core.errors import (
    SessionError,
)
from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.streams import cores
from tvm_neocpu.runtime.streams.cores import TooManyThreadsWarning

Array = NDArray[np.float32]
SHAPE = (1, 8, 6, 6)
FIRST = min(allowed_cpus())


NAN = float("nan")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": NAN}, "threads is a positive whole number, not nan"),
        ({"threads": 0}, "threads is a positive whole number, not 0"),
        ({"threads": "2"}, "not '2'"),
        ({"threads": True}, "not True"),
        ({"streams": -1}, "streams is a positive whole number, not -1"),
        ({"hint": "fast"}, "hint is 'latency' or 'throughput', not 'fast'"),
        ({"cores": []}, "cores="),
        ({"cores": [99999]}, "cores=[99999]: name each once, of those this process has"),
        ({"cores": [FIRST, FIRST]}, "name each once"),
        ({"cores": "all"}, "lists numbers of CPUs"),
        ({"cores": str(FIRST)}, "lists numbers of CPUs"),
        ({"cores": [FIRST + 0.5]}, "lists numbers of CPUs"),
        ({"cores": FIRST}, "lists numbers of CPUs"),
        ({"streams": 1_000_000}, "streams is at most 1024, not 1000000"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, object], words: str, lib: BuiltModule) -> None:
    with pytest.raises(SessionError) as caught:
        Session(lib, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_threads_than_cores_are_remarked(lib: BuiltModule, data: Array) -> None:
    with pytest.warns(TooManyThreadsWarning, match="4096 threads were asked for"):
        session = Session(lib, threads=4096)
    assert session.threads <= len(allowed_cpus())
    session.run({"data": data})


def test_more_streams_than_threads_are_remarked(wide_lib: BuiltModule) -> None:
    with pytest.warns(TooManyThreadsWarning, match="3 streams on 1 thread"):
        session = Session(wide_lib, threads=1, streams=3)
    with session:
        assert session.streams == 3


@pytest.mark.parametrize(
    "options",
    [{"threads": 1}, {"threads": 2}, {"streams": 2}, {"streams": 3, "threads": 1}],
)
def test_every_number_of_threads_and_streams_answers_alike(
    options: dict[str, int],
    wide_lib: BuiltModule,
    wide_cnn: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cores, "physical_cores", lambda: len(allowed_cpus()))
    image = np.random.default_rng(1).standard_normal((1, 8, 56, 56), dtype=np.float32)
    (wanted,) = onnx_runtime(wide_cnn, [image])
    with Session(wide_lib, **options) as session:
        assert session.streams == options.get("streams", 1)
        futures = [session.submit({"data": image}) for _ in range(8)]
        for future in futures:
            np.testing.assert_allclose(future.result()["out"], wanted, rtol=1e-4, atol=1e-4)


def test_throughput_measures_and_answers(wide_lib: BuiltModule) -> None:
    with Session(wide_lib, hint="throughput") as session:
        assert session.threads % session.streams == 0
        zeros = np.zeros((1, 8, 56, 56), "float32")
        assert session.run({"data": zeros})["out"].shape == (1, 16, 1, 1)


def test_many_callers_of_one_session(wide_lib: BuiltModule) -> None:
    rng = np.random.default_rng(2)
    images = [rng.standard_normal((1, 8, 56, 56), dtype=np.float32) for _ in range(6)]
    with Session(wide_lib, streams=2) as session, ThreadPoolExecutor(6) as callers:
        answers = [session.run({"data": image})["out"] for image in images]

        def work(number: int) -> None:
            for _ in range(60):
                found = session.run({"data": images[number]})["out"]
                np.testing.assert_array_equal(found, answers[number])

        for done in [callers.submit(work, number) for number in range(6)]:
            done.result()


def test_sessions_take_cores_that_others_do_not_use(lib: BuiltModule) -> None:
    if len(allowed_cpus()) < 2:
        pytest.skip("needs two CPUs")
    with Session(lib, threads=1) as one, Session(lib, threads=1) as other:
        assert set(one.cores[0]).isdisjoint(other.cores[0])
    with Session(lib, cores=[FIRST]) as named:
        assert named.cores == [[FIRST]]


def test_callers_keep_their_own_cores(lib: BuiltModule, data: Array) -> None:
    """Only the session's threads are bound; TVM's classic modules bind whoever calls them."""
    if not hasattr(tvm_neocpu.runtime.streams.cores.os, "sched_getaffinity"):
        pytest.skip("this system binds nothing")
    before = allowed_cpus()
    with Session(lib, cores=[FIRST]) as session:
        session.run({"data": data})
    assert allowed_cpus() == before
