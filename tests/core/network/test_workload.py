"""What every workload derives from its operands, its result and their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tvm_neocpu.core.network.workload import Operand, Role, Shape, Workload
from tvm_neocpu.core.types import FP32, Types


@dataclass(frozen=True)
class Scaled(Workload):
    """An operator that no package has: data times a weight a channel, plus a plain tensor."""

    types: Types = FP32

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("data", (1, 6, 5, 5), self.types.data, Role.FEATURE_MAP),
            Operand("weight", (6,), self.types.weight, Role.WEIGHT),
            Operand("shift", (7,), self.types.data),
        )

    @property
    def out_shape(self) -> Shape:
        return (1, 6, 5, 5)

    @property
    def flops(self) -> int:
        return 300

    def args(self) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("types", "of_inputs", "of_weights", "of_output"),
    [
        (FP32, 4 * (150 + 7), 4 * 6, 4 * 150),
        (Types("uint8", "int8", "int32", "float64"), 150 + 7, 6, 8 * 150),
    ],
)
def test_bytes_are_those_of_the_element_types(
    types: Types, of_inputs: int, of_weights: int, of_output: int
) -> None:
    workload = Scaled(types)
    assert workload.in_bytes == of_inputs
    assert workload.weight_bytes == of_weights
    assert workload.out_bytes == of_output
    assert workload.min_bytes == of_inputs + of_weights + of_output


def test_a_log_line_needs_nothing_beyond_the_arguments_by_default() -> None:
    assert Scaled().extras() == {}


def test_workloads_of_different_types_are_different_workloads() -> None:
    assert Scaled() == Scaled(FP32)
    assert Scaled() != Scaled(Types("float32", "float32", "float64", "float32"))
