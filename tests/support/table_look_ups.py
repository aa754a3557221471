"""A kernel that looks every element of a tensor of codes up in a table."""

from __future__ import annotations

import numpy as np
from samples import Array
from tvm import te, tirx

from tvm_neocpu.topi.math.look_up import looked_up

TABLE = np.random.default_rng(0).permutation(256).astype("uint8")


def look_ups(*shape: int) -> tirx.PrimFunc:
    """A function of codes of this shape, the table and the result; not scheduled."""
    codes = te.placeholder(shape, "uint8", "codes")
    table = te.placeholder((256,), "uint8", "table")
    found = te.compute(shape, lambda *at: looked_up(table, codes(*at)), name="found")
    return te.create_prim_func([codes, table, found])


def every_code(*shape: int) -> Array:
    """Codes of this shape, from 255 down, again and again."""
    return np.resize(np.arange(256, dtype="uint8")[::-1], shape)
