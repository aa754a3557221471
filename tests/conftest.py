"""Small ONNX models that many tests share."""

from __future__ import annotations

import compileall
import gc
import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, settings
from onnx import TensorProto, helper, numpy_helper

# Before any module of tests asks for a target: what a user measured must not decide a test, and no
# test writes into what the user keeps.
os.environ["TVM_NEOCPU_CALIBRATION"] = "off"
os.environ["TVM_NEOCPU_DATA"] = "off"
os.environ["TVM_NEOCPU_CACHE"] = "off"

# No test is timed: a deadline fails where other processes have the cores. The same tests draw the
# same examples: a change is judged by what it changed. `make nightly` draws others every time.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
# `HYPOTHESIS_PROFILE=fuzz pytest tests/networks/test_fuzz.py`
settings.register_profile(
    "fuzz", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config: pytest.Config) -> None:
    """The package's bytecode, once: else each process of the tests compiles 0.4 s of sources.

    A clean checkout has none, and ``PYTHONDONTWRITEBYTECODE`` keeps processes from leaving any.
    """
    if not hasattr(config, "workerinput"):
        package = Path(__file__).parents[1] / "tvm_neocpu"
        compileall.compile_dir(package, quiet=2)


def pytest_collection_finish() -> None:
    """Thousands of collected tests are no garbage: looking at them again took 5 % of the time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The marker says what a test needs; here it is skipped where that is missing."""
    if item.get_closest_marker("compiler") and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")


@pytest.fixture(autouse=True)
def small_networks_on_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build gives networks as small as those of tests one core: no test would run a fork."""
    monkeypatch.setattr("tvm_neocpu.choose_plan.may_be_small", lambda *_: False)


@pytest.fixture(autouse=True)
def all_cores() -> Iterator[None]:
    """A command of one thread pins its process, and says so in the environment.

    The tests that follow would share that core, with those of the other worker.
    """
    from tvm_neocpu.runtime.process.threads import BIND, COUNT

    environment = {name: os.environ.get(name) for name in (COUNT, BIND)}
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    yield
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if cores is not None and os.sched_getaffinity(0) != cores:
        os.sched_setaffinity(0, cores)


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def user_data(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A database of the test's own; its folder exists once something is written."""
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    folder = tmp_path_factory.getbasetemp() / "user-data" / name
    monkeypatch.setenv("TVM_NEOCPU_DATA", str(folder))
    return folder


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compile cache of the test's own; everywhere else it is off."""
    from tvm_neocpu.storage import cache_folder

    monkeypatch.setenv("TVM_NEOCPU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_folder, "_said", set())
    return tmp_path / "cache"


MakeModel = Callable[..., onnx.ModelProto]


def _initializer(name: str, shape: tuple[int, ...], seed: int) -> onnx.TensorProto:
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return numpy_helper.from_array(values / 4, name)


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """A model of the given nodes, from ``data`` to ``out``; weights by name and shape."""

    def make(
        nodes: list[onnx.NodeProto],
        shape: tuple[int | str, ...] = (1, 8, 6, 6),
        weights: dict[str, tuple[int, ...]] | None = None,
        out_shape: tuple[int | str, ...] | None = None,
        name: str = "data",
    ) -> onnx.ModelProto:
        initializers = [
            _initializer(key, dims, seed)
            for seed, (key, dims) in enumerate((weights or {}).items())
        ]
        graph = helper.make_graph(
            nodes,
            "test",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, out_shape)],
            initializers,
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    return make


@pytest.fixture(scope="session")
def tiny_cnn(make_model: MakeModel) -> onnx.ModelProto:
    """Convolution, ReLU, pool, flatten, dense: ``data`` (1, 8, 6, 6) -> ``out`` (1, 10)."""
    nodes = [
        helper.make_node("Conv", ["data", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc", "fb"], ["out"], "fc", transB=1),
    ]
    weights = {"w": (16, 8, 3, 3), "b": (16,), "fc": (10, 16), "fb": (10,)}
    return make_model(nodes, weights=weights, out_shape=(1, 10))
