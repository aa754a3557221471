"""The best members of a row by the order of the last one."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.best_of_rows import member_of
from tvm_neocpu.frontend.converters.compute.selected_members import RUN, select

LENGTH, UNTOUCHED = 300, 12345


@pytest.mark.parametrize("k", [RUN, 2 * RUN, 4 * RUN])
def test_members_that_fill_their_runs_leave_what_stands_behind_them(k: int) -> None:
    """That is the next row's, which another core may have begun: the best elements come first."""

    def body(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.Stmt:
        orders, members = (T.buffer_proxy(each) for each in (*inputs, *outputs))
        with IRBuilder() as builder:
            with T.seq_scope():
                members[k] = T.int64(UNTOUCHED)
                select(orders, members, (T.int64(0), T.int64(0)), (LENGTH, k), member_of)
            return builder.get().body

    row = te.placeholder((LENGTH,), "int32")
    made = te.extern([(k + 1,)], [row], body, dtype="int64")
    function = tvm.compile(te.create_prim_func([row, made]), target="llvm")
    orders = np.sort(np.random.default_rng(0).integers(-(2**31), 2**31, LENGTH))[::-1]
    orders = orders.astype("int32")
    members = tvm.runtime.tensor(np.zeros(k + 1, "int64"))
    function(tvm.runtime.tensor(orders), members)
    *found, behind = members.numpy()
    assert found == [(int(orders[i]) << 32) + 2**32 - 1 - i for i in range(k)]
    assert behind == UNTOUCHED
