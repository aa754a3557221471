"""Anchors: the note that survives fusion, read back as it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from tvm import te
from tvm.s_tir import Schedule

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import FP32, Types, uniform
from tvm_neocpu.topi.anchor import anchor_attrs, find_anchor, forget_anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.table import types_of

CASES = [
    (ConvWorkload(1, 8, 9, 7, 16, (3, 1), (2, 1), (1, 0, 1, 0)), ConvConfig(4, 8, 7, False, 2)),
    (ConvWorkload(1, 8, 9, 7, 8, (3, 3), groups=8), DepthwiseConfig(8, 8, 5)),
    (DenseWorkload(2, 30, 40), DenseConfig(16, 2)),
    (DenseWorkload(2, 30, 40, Types("uint8", "int8", "int32", "float32")), DenseConfig(16)),
    (TransformWorkload(1, 16, 3, 3, 0, 8, uniform("float64")), TransformConfig()),
]


def noted(workload: Workload, config: Config) -> Schedule:
    """A row sum that carries the note, and a stage behind it."""
    x = te.placeholder((4, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    total = te.compute(
        (4,),
        lambda i: te.sum(x[i, k], axis=k),
        name="total",
        attrs=anchor_attrs(workload, config),
    )
    return Schedule(te.create_prim_func([x, te.compute((4,), lambda i: total[i] + 1.0)]))


@pytest.mark.parametrize(("workload", "config"), CASES, ids=lambda value: type(value).__name__)
def test_the_note_is_read_as_it_was_written(workload: Workload, config: Config) -> None:
    sch = noted(workload, config)
    anchor = find_anchor(sch, types_of)
    assert anchor is not None
    assert (anchor.workload, anchor.config) == (workload, config)
    assert anchor.template == config.template
    assert sch.get(anchor.block).name_hint == "total"


def test_a_function_without_a_template_has_none() -> None:
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)])
    assert find_anchor(Schedule(func), types_of) is None


def test_nothing_is_left_of_a_forgotten_note() -> None:
    sch = noted(*CASES[0])
    anchor = find_anchor(sch, types_of)
    sch.decompose_reduction(anchor.block, sch.get_loops(anchor.block)[0])
    forget_anchor(sch)
    assert find_anchor(sch, types_of) is None
    assert "neocpu" not in sch.mod.script()


@dataclass(frozen=True)
class Scan:
    """A workload of somebody else's, with fields of every kind that JSON can carry."""

    sides: tuple[tuple[int, int], ...]
    reverse: bool
    mode: str
    types: Types = FP32


@dataclass(frozen=True)
class ScanConfig:
    template: ClassVar[str] = "scan"

    width: int = 4


def test_the_types_of_a_note_are_asked_of_the_caller() -> None:
    scan = Scan(((1, 2), (3, 4)), True, "edge", uniform("float64"))
    sch = noted(scan, ScanConfig(8))
    asked: list[str] = []

    def types(template: str) -> tuple[type[Scan], type[ScanConfig]]:
        asked.append(template)
        return Scan, ScanConfig

    anchor = find_anchor(sch, types)
    assert anchor is not None
    assert (anchor.workload, anchor.config) == (scan, ScanConfig(8))
    assert asked == ["scan"]


def test_a_template_that_is_not_registered_is_named() -> None:
    with pytest.raises(ConfigError, match="'scan'"):
        find_anchor(noted(Scan((), False, ""), ScanConfig()), types_of)
