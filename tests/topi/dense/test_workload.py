"""Dense layers: shapes, work, and how AutoTVM and people see them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.core.network.workload import Role
from tvm_neocpu.core.types import Types, uniform
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.workload_text import parse_workload

DENSE = DenseWorkload(4, 512, 1000)
SIZE = st.integers(1, 9999)


def test_shapes_and_work() -> None:
    assert DENSE.out_shape == (4, 1000)
    assert DENSE.flops == 2 * 4 * 512 * 1000


def test_the_weight_is_as_matmul_takes_it() -> None:
    types = Types("uint8", "int8", "int32", "float32")
    data, weight = replace(DENSE, types=types).operands
    assert (data.shape, data.dtype, data.role) == ((4, 512), "uint8", Role.PLAIN)
    assert (weight.shape, weight.dtype, weight.role) == ((512, 1000), "int8", Role.WEIGHT)


def test_args_are_autotvms_whose_weight_is_transposed() -> None:
    assert DENSE.args() == [
        ["TENSOR", [4, 512], "float32"],
        ["TENSOR", [1000, 512], "float32"],
        None,
        "float32",
    ]


def test_one_line_for_people() -> None:
    assert str(DENSE) == "dense 4x512->1000"
    assert str(replace(DENSE, types=uniform("float64"))) == "dense 4x512->1000 float64"


@given(st.builds(DenseWorkload, SIZE, SIZE, SIZE))
def test_what_prints_is_read_back(dense: DenseWorkload) -> None:
    assert parse_workload(str(dense)) == dense


@pytest.mark.parametrize("text", ["dense 0x512->1000", "dense 1x0->10", "dense 1x512->0"])
def test_a_layer_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(WorkloadTextError, match="has a size of 0"):
        parse_workload(text)
