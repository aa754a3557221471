"""Random quantised CNNs, bit for bit against ONNX Runtime without its optimisations.

As in :mod:`test_fuzz` CI draws a few, the same each time, and `HYPOTHESIS_PROFILE=fuzz` 2,000
others. Scales are powers of two and sums small, so that floats are exact on both sides.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import tvm
from fuzzing import FUZZ, onnx_runtimes, outputs
from hypothesis import given
from numpy.typing import NDArray
from quantized_kinds import between_codes, of_codes, of_integers
from random_onnx import Sketch, data_for, sketches
from random_plans import ours_of_any_plan
from random_quantized import Write, written

from tvm_neocpu import relay

Arrays = dict[str, NDArray[Any]]

KINDS: dict[str, Write] = {**between_codes.KINDS, **of_codes.KINDS, **of_integers.KINDS}
WEIGHTED = (*KINDS, *("conv", "residual", "depthwise", "conv") * 2)
# Of a result that ONNX Runtime rounds on its way: so many elements may differ, by 1.
TIES = 1e-3


def assert_same(found: list[NDArray[Any]], expected: Arrays) -> None:
    for mine, (name, theirs) in zip(found, expected.items(), strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if not name.startswith("loose"):
            np.testing.assert_array_equal(mine, theirs, name)
        elif theirs.dtype == np.float32:
            atol = 0.02 * float(np.abs(theirs).max())
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol, err_msg=name)
        else:
            steps = np.abs(mine.astype(int) - theirs.astype(int))
            assert steps.max() <= 1, name
            assert np.count_nonzero(steps) <= max(1, TIES * steps.size), name


@pytest.mark.filterwarnings("ignore::tvm_neocpu.FallbackWarning")
@FUZZ
@given(sketch=sketches(WEIGHTED))
def test_codes_are_onnx_runtimes(sketch: Sketch) -> None:
    model = written(sketch, KINDS)
    data = data_for(model)
    names = [output.name for output in model.graph.output]
    # Without its optimisations it dequantises and computes in floats.
    floats = onnx_runtimes(model, data, optimised=False)
    expected = dict(zip(names, floats, strict=True))
    mod, params = relay.frontend.from_onnx(model)
    lib = relay.build(mod, target="llvm", params=params)
    assert_same(outputs(lib["default"](tvm.cpu()), data), expected)
    seed = zlib.crc32(model.SerializeToString(deterministic=True))
    assert_same(ours_of_any_plan(model, data, seed), expected)
