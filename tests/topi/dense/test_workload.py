"""Dense layers as workloads: work, bytes, and how AutoTVM and people see them."""

from __future__ import annotations

from tvm_neocpu.core.types import Types, uniform
from tvm_neocpu.core.workload import Role
from tvm_neocpu.topi.dense.workload import DenseWorkload

DENSE = DenseWorkload(4, 512, 1000)


def test_flops_count_every_multiply_add_twice() -> None:
    assert DENSE.flops == 2 * 4 * 512 * 1000


def test_operands() -> None:
    data, weight = DENSE.operands
    assert (data.name, data.shape, data.role) == ("data", (4, 512), Role.PLAIN)
    assert (weight.name, weight.shape, weight.role) == ("weight", (512, 1000), Role.WEIGHT)
    assert DENSE.out_shape == (4, 1000)


def test_bytes_follow_from_the_types() -> None:
    assert (DENSE.in_bytes, DENSE.weight_bytes, DENSE.out_bytes) == (8192, 2_048_000, 16_000)
    quantised = DenseWorkload(4, 512, 1000, Types("uint8", "int8", "int32", "float32"))
    assert (quantised.in_bytes, quantised.weight_bytes) == (2048, 512_000)
    assert quantised.out_bytes == 16_000
    assert quantised.min_bytes == 2048 + 512_000 + 16_000


def test_one_line_for_people() -> None:
    assert str(DENSE) == "dense 4x512->1000"
    assert str(DenseWorkload(4, 512, 1000, uniform("float64"))) == "dense 4x512->1000 float64"


def test_args_are_autotvms() -> None:
    tensors = [["TENSOR", [4, 512], "float32"], ["TENSOR", [1000, 512], "float32"]]
    assert DENSE.args() == [*tensors, None, "float32"]
    assert DENSE.extras() == {}
