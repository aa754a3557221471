"""Products of two tensors: shapes, log lines, text, reference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tvm_neocpu.core.errors import LineError, WorkloadTextError
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.batch_matmul.operator import BATCH_MATMUL
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload

KEYS = MatmulWorkload((2, 49, 3, 8), (2, 50, 3, 8), (0, 2, 1, 3), (0, 2, 3, 1))
BROADCAST = MatmulWorkload((7, 5), (2, 3, 7, 9), (1, 0), (0, 1, 2, 3))


def test_shapes() -> None:
    assert (KEYS.left_shape, KEYS.right_shape) == ((2, 3, 49, 8), (2, 3, 8, 50))
    assert KEYS.out_shape == (2, 3, 49, 50)
    assert (KEYS.batch, KEYS.rows, KEYS.inner, KEYS.columns) == (6, 49, 8, 50)
    assert KEYS.flops == 2 * 6 * 49 * 8 * 50
    assert KEYS.row_pitch == 24
    assert BROADCAST.out_shape == (2, 3, 5, 9)


def test_how_operands_lie() -> None:
    assert KEYS.reads_left_along_rows and not KEYS.reads_right_along_rows and KEYS.turns_right
    assert not BROADCAST.reads_left_along_rows and BROADCAST.reads_right_along_rows


@pytest.mark.parametrize(
    ("left", "right", "axes", "reason"),
    [
        ((4, 5), (6, 7), ((0, 1), (0, 1)), "5 columns do not fit 6 rows"),
        ((2, 4, 5), (3, 5, 6), ((0, 1, 2),) * 2, r"\[2\] and \[3\] do not broadcast"),
        ((4, 5), (5, 6), ((0, 0), (0, 1)), "do not transpose"),
        ((4,), (4, 6), ((0,), (0, 1)), "do not transpose"),
    ],
)
def test_misfits(left: Any, right: Any, axes: Any, reason: str) -> None:
    product = MatmulWorkload(left, right, *axes)
    with pytest.raises(LineError, match=reason):
        BATCH_MATMUL.decode("batch_matmul_pack", product.args(), {})


@pytest.mark.parametrize("product", [KEYS, BROADCAST])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_lines_and_texts_are_read_back(product: MatmulWorkload, dtype: str) -> None:
    args = json.loads(json.dumps(product.args()))
    assert BATCH_MATMUL.decode("batch_matmul_pack", args, {}) == product
    assert BATCH_MATMUL.parse is not None
    assert BATCH_MATMUL.parse(str(product)) == product


def test_texts() -> None:
    parse = BATCH_MATMUL.parse
    assert parse is not None
    assert str(KEYS) == "matmul 2x49x3x8@0213 * 2x50x3x8@0231"
    assert parse(BATCH_MATMUL.example) == MatmulWorkload(
        (12, 197, 64), (12, 64, 197), (0, 1, 2), (0, 1, 2)
    )
    assert parse("dense 1x512->1000") is None
    for broken in ("matmul 3x4 * 5x6", "matmul 0x4 * 4x6"):
        with pytest.raises(WorkloadTextError):
            parse(broken)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({1: ["TENSOR", [2, 50, 3, 8], "int8"]}, "mixed types"),
        ({2: "0213"}, "are not axes"),
        ({2: [0, 2, 1, "3"]}, "is not a size"),
        ({4: 7}, "not a product's"),
    ],
)
def test_lines_of_others_are_refused(change: dict[int, Any], reason: str) -> None:
    args = [change.get(at, arg) for at, arg in enumerate(KEYS.args())]
    with pytest.raises(LineError, match=reason):
        BATCH_MATMUL.decode("batch_matmul_pack", args, {})


def test_the_reference_transposes_and_broadcasts() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=KEYS.left), rng.normal(size=KEYS.right)
    found = BATCH_MATMUL.reference(KEYS, left.astype("f4"), right.astype("f4"))
    np.testing.assert_allclose(found, np.einsum("bmhd,bnhd->bhmn", left, right), atol=1e-5)
    assert found.dtype == np.float32
    assert uniform("float32") == KEYS.types
