"""Codes looked up in a table by ARM's instructions, every code and numbers of lanes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.kernels import arm, compiled
from samples import unwritten
from table_look_ups import TABLE, every_code, look_ups

from tvm_neocpu.topi.schedule_function import schedule_function

A72 = arm("cortex-a72")


@pytest.mark.parametrize("row", [1, 4, 8, 13, 16, 24, 100, 256])
def test_every_code(row: int) -> None:
    codes = every_code(256 // row + 1, row)
    kernels = compiled(schedule_function(look_ups(*codes.shape), A72.cpu), A72)
    (made,) = kernels("main", [codes, TABLE, unwritten(codes.shape, "uint8")])
    np.testing.assert_array_equal(made, TABLE[codes])
