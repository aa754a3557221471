"""Deformable convolutions read back from the argument lists of tasks, and whole log lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from deformable import DEFORMS, deformables
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.deform_conv2d.log import decode
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.tuning.database.lines.record_lines import decode_record, encode_record

DEFORM = DEFORMS["deformable, groups"]
MASKED = DEFORMS["deformable, offset groups"]
TASK = DeformConfig.template


@given(deform=deformables(), dtype=st.sampled_from(["float32", "float64"]))
def test_our_own_lines(deform: DeformConvWorkload, dtype: str) -> None:
    written = replace(deform, types=uniform(dtype))
    args, extras = json.loads(json.dumps([written.args(), written.extras()]))
    assert decode(TASK, args, extras) == written


def test_a_record_is_read_back() -> None:
    config = DeformConfig(8, 32, 7, 3, True)
    record = Record(MASKED, config, (1e-3, 2e-3), "znver5", 2, 0, 0.5, 1.0)
    assert decode_record(json.loads(encode_record(record))) == record


def test_a_config_that_cannot_compute_the_workload_is_refused() -> None:
    record = Record(MASKED, DeformConfig(16, 32, 7), (1e-3,), "znver5", 2)
    with pytest.raises(LineError, match="ic_bn 16 does not divide"):
        decode_record(json.loads(encode_record(record)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({0: ["TENSOR", [2, 24, 7], "float32"]}, "not of four dimensions"),
        ({1: ["TENSOR", [2, 24, 7, 5], "float32"]}, "its offset is"),
        ({2: ["TENSOR", [36, 7, 2, 3], "float32"]}, "its weight is"),
        ({2: ["TENSOR", [36, 8, 2, 3], "float64"]}, "mixed types float32, float64"),
        ({8: "float16"}, "mixed types"),
        ({3: [0, 1]}, "0 is not a size"),
        ({6: 7}, "7 groups do not divide"),
        ({7: 5}, "5 groups do not divide"),
        ({7: "3"}, "is not a size"),
        ({4: [0, 0, 0, 0], 5: [9, 9]}, "window is larger"),
    ],
)
def test_lines_of_others_are_refused(change: dict[int, Any], reason: str) -> None:
    args = [change.get(at, arg) for at, arg in enumerate(DEFORM.args())]
    with pytest.raises(LineError, match=reason):
        decode(TASK, args, {})


def test_other_numbers_of_arguments_are_refused() -> None:
    for args in (DEFORM.args()[:8], [*MASKED.args(), 1]):
        with pytest.raises(LineError, match="not a deformable convolution's"):
            decode(TASK, args, {})
    with pytest.raises(LineError, match="its mask is"):
        decode(TASK, [*DEFORM.args(), MASKED.args()[-1]], {})
