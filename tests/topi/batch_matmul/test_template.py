"""Products of two tensors as scheduled, and what the cost model says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nests import SKYLAKE, nest
from samples import BIAS, check

from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.batch_matmul.geometry import MatmulConfig, MatmulGeometry, misfit
from tvm_neocpu.topi.batch_matmul.template import pieces_of
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.cost.ranking import predict_seconds, ranked
from tvm_neocpu.topi.kernel import kernel

IN_ORDER = (0, 1, 2)
EVEN = MatmulWorkload((4, 28, 64), (4, 64, 96), IN_ORDER, IN_ORDER)
ODD = MatmulWorkload((4, 27, 64), (4, 64, 97), IN_ORDER, IN_ORDER)
KEYS = MatmulWorkload((4, 28, 64), (4, 97, 64), IN_ORDER, (0, 2, 1))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MatmulConfig(32, 14, 2), "parallel 4, 3, 2, 64, unroll 14, vector 32"),
        (MatmulConfig(32, 14, 1), "parallel 8, 3, 64, unroll 14, vector 32"),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
def test_loops(config: MatmulConfig, expected: str, shared: bool) -> None:
    found = nest(EVEN, replace(config, shared=shared), "matmul_acc_update")
    assert found.replace(", 1,", ",") == expected


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("product", [ODD, KEYS], ids=["rows", "columns"])
def test_numbers_of_every_way_to_pack(product: MatmulWorkload, shared: bool) -> None:
    check(product, MatmulConfig(32, 14, 1, shared), SKYLAKE, BIAS)


ALONE = MatmulWorkload((27, 64), (64, 97), (0, 1), (0, 1))
ALONE_TURNED = MatmulWorkload((27, 64), (97, 64), (0, 1), (1, 0))


@pytest.mark.parametrize("product", [ALONE, ALONE_TURNED], ids=["rows", "columns"])
def test_cores_pack_the_panels_of_one_product_together(product: MatmulWorkload) -> None:
    config = MatmulConfig(32, 14, 1, shared=True)
    forks = kernel(product, config, SKYLAKE).script().count("T.parallel")
    assert forks == (3 if product.turns_right else 2)
    check(product, config, SKYLAKE, BIAS)


@pytest.mark.parametrize("columns", [96, 97, 128])
def test_each_core_packs_the_panels_that_it_multiplies(columns: int) -> None:
    product = MatmulWorkload((28, 64), (64, columns), (0, 1), (0, 1))
    for oc_bn in (16, 32):
        panels = -(-columns // oc_bn)
        for tiles in factors(panels):
            config = MatmulConfig(oc_bn, 14, tiles, by_panels=True)
            assert MatmulGeometry(product, config).chunks == panels // tiles
            check(product, config, SKYLAKE, BIAS)


def test_one_product_is_cut_by_panels() -> None:
    alone = MatmulWorkload((196, 768), (768, 768), (0, 1), (0, 1))
    several = MatmulWorkload((12, 196, 64), (12, 64, 768), IN_ORDER, IN_ORDER)
    assert ranked(alone, SKYLAKE)[0].config.by_panels
    assert not any(found.config.by_panels for found in ranked(several, SKYLAKE))
    assert not any(found.config.by_panels for found in ranked(alone, SKYLAKE.with_cores(1)))
    assert misfit(alone, MatmulConfig(32, 14, 5, by_panels=True)) == "its last chunk is not full"


@pytest.mark.parametrize(("inner", "pieces"), [(64, 8), (97, 97), (5, 5), (30, 10)])
def test_pieces_divide_what_is_packed(inner: int, pieces: int) -> None:
    product = MatmulWorkload((27, inner), (inner, 97), (0, 1), (0, 1))
    assert pieces_of(product, SKYLAKE.with_cores(2)) == pieces
    assert pieces_of(product, SKYLAKE.with_cores(1)) == 1


def test_columns_are_turned_in_square_tiles() -> None:
    assert "T.Shuffle" in kernel(KEYS, MatmulConfig(32, 14), SKYLAKE).script()
    assert "T.Shuffle" not in kernel(EVEN, MatmulConfig(32, 14), SKYLAKE).script()


def test_geometry() -> None:
    geometry = MatmulGeometry(ODD, MatmulConfig(32, 14, 1))
    assert geometry.copies and geometry.chunks == 8
    assert geometry.panels_shape == (4, 4, 64, 32)
    assert geometry.times_packed == 2
    assert MatmulGeometry(ODD, MatmulConfig(32, 14, 1, shared=True)).times_packed == 1
    assert not MatmulGeometry(EVEN, MatmulConfig(32, 14, 2)).copies


def test_packing_again_and_turning_are_charged() -> None:
    def price(product: MatmulWorkload, *config: int | bool) -> float:
        return predict_seconds(product, MatmulConfig(*config), SKYLAKE.with_cores(1))

    assert price(EVEN, 32, 14, 2) < price(EVEN, 32, 14, 1)
    straight = replace(KEYS, right=(4, 64, 97), right_axes=IN_ORDER)
    assert price(straight, 32, 14, 2) < price(KEYS, 32, 14, 2)


@pytest.mark.parametrize("empty", [MatmulConfig(0, 1), MatmulConfig(16, 0), MatmulConfig(16, 1, 0)])
def test_empty_tiles_do_not_fit(empty: MatmulConfig) -> None:
    assert misfit(EVEN, empty) == "its tiles are empty"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MatmulConfig(32, 7, 2, in_place=True), "parallel 8, 2, 4, 64, unroll 7, vector 32"),
        (MatmulConfig(32, 14, 1, in_place=True), "parallel 12, 2, 64, unroll 14, vector 32"),
    ],
)
def test_panels_in_place_share_the_cores(config: MatmulConfig, expected: str) -> None:
    assert nest(EVEN, config, "matmul_acc_update").replace(", 1,", ",") == expected


@pytest.mark.parametrize("tiles", [1, 2, 3, 4])
@pytest.mark.parametrize("height", [9, 7])
def test_numbers_of_panels_in_place(height: int, tiles: int) -> None:
    """A last panel that is not full, chunks that end behind it, rows that overhang."""
    check(ODD, MatmulConfig(32, height, tiles, in_place=True), SKYLAKE, BIAS)


def test_columns_that_lie_across_are_packed() -> None:
    assert misfit(KEYS, MatmulConfig(32, 14, in_place=True)) is not None
    assert misfit(EVEN, MatmulConfig(32, 14, in_place=True)) is None


def test_few_rows_read_their_panels_in_place() -> None:
    few = MatmulWorkload((8, 10, 10), (8, 10, 6800), IN_ORDER, IN_ORDER)
    assert ranked(few, SKYLAKE)[0].config.in_place
    many = MatmulWorkload((4, 197, 64), (4, 64, 197), IN_ORDER, IN_ORDER)
    assert not any(candidate.config.in_place for candidate in ranked(many, SKYLAKE))
