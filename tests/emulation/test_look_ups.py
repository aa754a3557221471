"""Codes looked up in a table by ARM's instructions, every code and numbers of lanes."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.kernels import arm, compiled
from samples import unwritten

from tvm_neocpu.topi.math.look_up import looked_up
from tvm_neocpu.topi.schedule_function import schedule_function

A72 = arm("cortex-a72")


@pytest.mark.parametrize("row", [1, 4, 8, 13, 16, 24, 100, 256])
def test_every_code(row: int) -> None:
    table = np.random.default_rng(row).permutation(256).astype("uint8")
    codes = np.resize(np.arange(256, dtype="uint8"), (256 // row + 1, row))
    read, values = te.placeholder(codes.shape, "uint8"), te.placeholder((256,), "uint8")
    found = te.compute(codes.shape, lambda *at: looked_up(values, read(*at)), name="found")
    func = schedule_function(te.create_prim_func([read, values, found]), A72.cpu)
    kernels = compiled(func, A72)
    (made,) = kernels("main", [codes, table, unwritten(codes.shape, "uint8")])
    np.testing.assert_array_equal(made, table[codes])
