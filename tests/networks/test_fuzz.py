"""Random CNNs of ONNX, against ONNX Runtime: folded, altered, scheduled, exported and loaded.

CI draws a few, the same each time. `HYPOTHESIS_PROFILE=fuzz pytest tests/networks/test_fuzz.py`
draws 2,000 others at every run. What they find becomes a plain test beside the code at fault.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from fuzzing import FUZZ, onnx_runtimes, outputs
from hypothesis import assume, given
from numpy.typing import NDArray
from random_layers import WEIGHTED, written
from random_onnx import Sketch, data_for, sketches
from random_plans import ours_of_any_plan

import tvm_neocpu
from tvm_neocpu import relay

Arrays = list[NDArray[np.float32]]

TOLERANCE = 2e-4  # of the largest value
# In CI; the C compiler takes longer than all the rest.
EXPORTED_EACH = 8


def runtime(model: onnx.ModelProto, data: NDArray[np.float32]) -> Arrays:
    """What ONNX Runtime computes; networks that overflow are left out, too."""
    expected = onnx_runtimes(model, data)
    assume(all(np.isfinite(array).all() for array in expected))
    return expected


def rounding(model: onnx.ModelProto, data: NDArray[np.float32]) -> float:
    """The rounding of the largest finite value in the network, of any tensor.

    Outputs below it consist of rounding: the mean of ``x - mean(x)``.
    """
    every = onnx.ModelProto()
    every.CopyFrom(model)
    shown = {output.name for output in model.graph.output}
    names = {name for node in model.graph.node for name in node.output if name}
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names - shown))
    arrays = [data, *onnx_runtimes(every, data)]
    floats = [array[np.isfinite(array)] for array in arrays if array.dtype == np.float32]
    return float(np.finfo(np.float32).eps * max(np.abs(array).max(initial=0) for array in floats))


def assert_same(found: Arrays, expected: Arrays, rounded: float) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        largest = float(np.abs(theirs).max())
        bound = TOLERANCE * largest if largest > rounded else rounded
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound, equal_nan=False)


@pytest.fixture(scope="module")
def turns() -> Iterator[int]:
    return itertools.count(1)


@pytest.mark.compiler
@pytest.mark.filterwarnings("ignore::tvm_neocpu.FallbackWarning")
@FUZZ
@given(sketch=sketches(WEIGHTED))
def test_numbers_are_onnx_runtimes(
    sketch: Sketch, turns: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = written(sketch)
    data = data_for(model)
    expected = runtime(model, data)
    rounded = rounding(model, data)
    mod, params = relay.frontend.from_onnx(model)
    lib = relay.build(mod, target="llvm", params=params)
    assert_same(outputs(lib["default"](tvm.cpu()), data), expected, rounded)
    # The plan follows from the network, so that what fails fails again.
    seed = zlib.crc32(model.SerializeToString(deterministic=True))
    assert_same(ours_of_any_plan(model, data, seed), expected, rounded)
    if next(turns) % EXPORTED_EACH == 0:
        path: Path = tmp_path_factory.mktemp("fuzz") / "network.so"
        lib.export_library(str(path))
        assert_same(outputs(tvm_neocpu.load(path)["default"](tvm.cpu()), data), expected, rounded)
