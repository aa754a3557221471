"""Inputs of a type that NumPy's DLPack lacks."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.runtime.calls.inputs import Inputs
from tvm_neocpu.runtime.files.module_info import TensorInfo

ml_dtypes = pytest.importorskip("ml_dtypes")


def test_bfloat16_is_copied_and_not_shared() -> None:
    inputs = Inputs([TensorInfo("x", (2, 3), "bfloat16")], [(2, 3)])
    data = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    inputs.copy_in(0, data[:, ::-1])
    np.testing.assert_array_equal(inputs.tensors[0].numpy(), data[:, ::-1])
    assert inputs.take_unset() == []
    with pytest.raises(ShapeError, match="cannot share bfloat16"):
        inputs.own(0)
