"""A sweep's log lines."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_neocpu.core.errors import ConfigError, LineError
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.operator import BY_TVM, SWEEP
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.database.lines.record_lines import decode_record, encode_record, parse_row

TENSOR = ["TENSOR", [1, 48, 6, 7], "float32"]
IMAGE = (1, 48, 6, 7)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("block", [0, 16])
def test_a_record_is_read_back(block: int, dtype: str) -> None:
    sweep = SweepWorkload("move", (IMAGE, IMAGE), (1, 96, 6, 7), 1, block, uniform(dtype))
    record = Record(sweep, SweepConfig(), (1e-5,), "znver3", 1)
    found = decode_record(parse_row(encode_record(record)))
    assert (found.workload, found.config, found.costs) == (sweep, SweepConfig(), (1e-5,))


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["pool", [TENSOR], TENSOR, 9], "not a sweep"),
        (["softmax", [TENSOR], TENSOR, 9, "NCHW"], "not a sweep"),
        ([["pool"], [TENSOR], TENSOR, 9, "NCHW"], "not a sweep"),
        (["pool", [], TENSOR, 9, "NCHW"], "not a sweep"),
        (["pool", [TENSOR], TENSOR, 0, "NCHW"], "not a size"),
        (["pool", [TENSOR], TENSOR, 9, "NHWC"], "NHWC"),
        (["pool", [["TENSOR", [48], "float32"]], TENSOR, 9, "NCHW"], "no feature map"),
        (["pool", [["TENSOR", [1, 48, 6, 7], "int8"]], TENSOR, 9, "NCHW"], "several"),
    ],
)
def test_lines_of_others_are_refused(args: list[Any], reason: str) -> None:
    with pytest.raises(LineError, match=reason):
        SWEEP.decode(BY_TVM.name, args, {})


def test_it_computes_nothing() -> None:
    with pytest.raises(ConfigError, match="what it costs"):
        SWEEP.reference(SweepWorkload("pool", (IMAGE,), IMAGE, 9, 0))
