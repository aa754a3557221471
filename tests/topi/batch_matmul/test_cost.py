"""What the batched product's cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.batch_matmul.cost import predict_seconds
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
ALONE = SKYLAKE.with_cores(1)
IN_ORDER = (0, 1, 2)
SCORES = MatmulWorkload((12, 196, 64), (12, 64, 196), IN_ORDER, IN_ORDER)


def test_twice_the_products_take_twice_as_long() -> None:
    """As long as all of them stay in L3."""
    half, config = replace(SCORES, left=(6, 196, 64), right=(6, 64, 196)), MatmulConfig(32, 14, 14)
    ratio = predict_seconds(SCORES, config, ALONE) / predict_seconds(half, config, ALONE)
    assert 1.8 < ratio < 2.2


def test_panels_packed_once_for_all_chunks_are_cheaper_than_once_for_each() -> None:
    each, shared = (MatmulConfig(32, 14, 1, shared=shared) for shared in (False, True))
    assert predict_seconds(SCORES, shared, ALONE) < predict_seconds(SCORES, each, ALONE)
    # A chunk that covers all rows packs them once anyway, without a pass of its own.
    each, shared = (replace(config, tiles=14) for config in (each, shared))
    assert predict_seconds(SCORES, each, ALONE) < predict_seconds(SCORES, shared, ALONE)


def test_columns_that_no_square_tile_turns_cost_most() -> None:
    """Side by side in the right matrix lie: rows, columns, neither."""
    turned = replace(SCORES, right=(12, 196, 64), right_axes=(0, 2, 1))
    scattered = replace(SCORES, right=(64, 196, 12), right_axes=(2, 0, 1))
    config = MatmulConfig(32, 14, 14)
    prices = [predict_seconds(each, config, ALONE) for each in (SCORES, turned, scattered)]
    assert prices == sorted(set(prices))
