"""Arrays over tensors can be written, whatever NumPy's version thinks of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_neocpu.runtime.ffi import tensors
from tvm_neocpu.runtime.ffi.tensors import as_array, view_of, zeros


def test_arrays_can_be_written_where_numpy_takes_them_for_read_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So did NumPy up to 2.3 with every tensor of tvm_ffi."""
    plain = np.from_dlpack

    def read_only(value: Any) -> np.ndarray:
        array = plain(value)
        array.flags.writeable = False
        return array

    monkeypatch.setattr(tensors.np, "from_dlpack", read_only)
    tensor = zeros((2, 3), "float32")
    as_array(tensor)[...] = 7
    view = view_of(tensor)
    assert view is not None
    view[0, 0] = 5
    np.testing.assert_array_equal(as_array(tensor), [[5, 7, 7], [7, 7, 7]])
    half = zeros((4,), "bfloat16")
    as_array(half)[...] = 1
    assert as_array(half).astype("float32").sum() == 4
