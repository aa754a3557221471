"""What one operator computes: shapes, attributes and element types, without how.

An operator's own workload type lies in its room, such as :mod:`tvm_neocpu.topi.conv2d.workload`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod
from typing import Any

from tvm_neocpu.core.machine.dot import ANY_WEIGHTS
from tvm_neocpu.core.types import Types, item_bytes

Shape = tuple[int, ...]


class Role(Enum):
    """How an operand is stored when a kernel reads it."""

    # A feature map of shape (N, C, H, W), in the layout that the config reads.
    FEATURE_MAP = "feature map"
    # As its shape says, whatever the config is.
    PLAIN = "plain"
    # A constant, which the implementation packs at compile time.
    WEIGHT = "weight"


@dataclass(frozen=True)
class Operand:
    """One tensor that an operator reads, by its logical shape."""

    name: str
    shape: Shape
    dtype: str
    role: Role = Role.PLAIN

    @property
    def bytes(self) -> int:
        return prod(self.shape) * item_bytes(self.dtype)


class Workload(ABC):
    """The base of every operator's workload, a frozen dataclass with these members.

    Two workloads that are equal cost the same and share their tuning records. ``str(workload)`` is
    a short text for people. ``weight_bits`` says how small integer weights are known to be.
    """

    types: Types
    weight_bits: int = ANY_WEIGHTS

    @property
    @abstractmethod
    def operands(self) -> tuple[Operand, ...]:
        """All tensors that it reads, in the order in which a template's ``compute`` takes them."""

    @property
    @abstractmethod
    def out_shape(self) -> Shape:
        """The logical shape of its result."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Arithmetic operations of one run, a multiply-add counted as two."""

    @abstractmethod
    def args(self) -> list[Any]:
        """The argument list of the AutoTVM task that its log lines carry."""

    def extras(self) -> dict[str, Any]:
        """What :meth:`args` cannot tell; a log line keeps it under its ``"neocpu"`` key."""
        return {}

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of its constants, before packing."""
        return sum(operand.bytes for operand in self.operands if operand.role is Role.WEIGHT)

    @cached_property
    def in_bytes(self) -> int:
        """Bytes of the tensors that are not constant."""
        return sum(operand.bytes for operand in self.operands if operand.role is not Role.WEIGHT)

    @cached_property
    def out_bytes(self) -> int:
        return prod(self.out_shape) * item_bytes(self.types.output)

    @property
    def min_bytes(self) -> int:
        """Bytes of a run that reads every operand once and writes the result once."""
        return self.in_bytes + self.weight_bytes + self.out_bytes
