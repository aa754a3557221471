"""Several threads at once: one module, modules of one library, and making modules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tvm
from numpy.typing import NDArray

import tvm_neocpu
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.calls.graph_module import GraphModule

Array = NDArray[np.float32]
THREADS, RUNS = 4, 60


@pytest.fixture(scope="module")
def images() -> list[Array]:
    """One image for each thread, far enough apart to tell whose scores are whose."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, 8, 56, 56), dtype=np.float32) for _ in range(THREADS)]


@pytest.fixture(scope="module")
def answers(wide_lib: BuiltModule, images: list[Array]) -> list[Array]:
    """What each image gives when nobody else runs."""
    module = wide_lib["default"](tvm.cpu())
    return [scores_of(module, image) for image in images]


def scores_of(module: GraphModule, image: Array) -> Array:
    with module.lock:
        module.run(data=image)
        return module.get_output(0).numpy()


def in_threads(job: Callable[[int], None], count: int = THREADS) -> None:
    """Run ``job(number)`` in so many threads, all started at the same moment."""
    start = threading.Barrier(count)

    def begin(number: int) -> None:
        start.wait()
        job(number)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(begin, number) for number in range(count)]:
            done.result()


def test_one_module_in_four_threads(
    wide_lib: BuiltModule, images: list[Array], answers: list[Array]
) -> None:
    module = wide_lib["default"](tvm.cpu())

    def work(number: int) -> None:
        for _ in range(RUNS):
            np.testing.assert_array_equal(scores_of(module, images[number]), answers[number])

    in_threads(work)


def test_without_the_lock_every_output_is_that_of_some_run(
    wide_lib: BuiltModule, images: list[Array], answers: list[Array]
) -> None:
    module = wide_lib["default"](tvm.cpu())
    module.run(data=images[0])

    def work(number: int) -> None:
        for _ in range(RUNS):
            module.set_input("data", images[number])
            module.run()
            found = module.get_output(0).numpy()
            assert any(np.array_equal(found, answer) for answer in answers)

    in_threads(work)


def test_threads_take_turns(
    wide_lib: BuiltModule, images: list[Array], answers: list[Array]
) -> None:
    """Each thread runs on a pool of workers of its own, and the next on another."""
    module = wide_lib["default"](tvm.cpu())
    for turn in range(12):
        number = turn % THREADS
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(scores_of, module, images[number]).result()
        np.testing.assert_array_equal(found, answers[number])
    np.testing.assert_array_equal(scores_of(module, images[0]), answers[0])


@pytest.mark.parametrize("kind", ["built", "loaded"])
def test_a_module_for_each_thread(
    kind: str,
    wide_lib: BuiltModule,
    images: list[Array],
    answers: list[Array],
    tmp_path: Path,
) -> None:
    lib = wide_lib
    if kind == "loaded":
        wide_lib.export_library(tmp_path / "net.so")
        lib = tvm_neocpu.load(tmp_path / "net.so")

    def work(number: int) -> None:
        module = lib["default"](tvm.cpu())
        for _ in range(RUNS):
            np.testing.assert_array_equal(scores_of(module, images[number]), answers[number])

    in_threads(work)


def test_timing_keeps_others_out(
    wide_lib: BuiltModule, images: list[Array], answers: list[Array]
) -> None:
    module = wide_lib["default"](tvm.cpu())

    def work(number: int) -> None:
        for _ in range(10):
            if number == 0:
                assert module.benchmark(repeat=2, number=5).mean > 0
            elif number == 1:
                assert module.benchmark(repeat=2, number=5, end_to_end=True).mean > 0
            else:
                np.testing.assert_array_equal(scores_of(module, images[number]), answers[number])

    in_threads(work)


def test_all_else_that_a_module_does(wide_lib: BuiltModule, images: list[Array]) -> None:
    module = wide_lib["default"](tvm.cpu())
    module.run(data=images[0])

    def work(number: int) -> None:
        out = np.empty((1, 16, 1, 1), "float32")
        for _ in range(50):
            module.set_input_zero_copy("data", tvm.runtime.tensor(images[number]))
            module.run()
            module.get_output("out", out)
            assert np.isfinite(out).all()
            module.input_array("data")[...] = 0
            assert module.get_input("data").shape == (1, 8, 56, 56)

    in_threads(work)


def test_one_file_exported_and_loaded_by_several_threads(
    wide_lib: BuiltModule, images: list[Array], answers: list[Array], tmp_path: Path
) -> None:
    path = tmp_path / "net.so"

    def work(number: int) -> None:
        wide_lib.export_library(path)
        module = tvm_neocpu.load(path)["default"](tvm.cpu())
        np.testing.assert_array_equal(scores_of(module, images[number]), answers[number])

    in_threads(work)
    assert list(tmp_path.iterdir()) == [path]
