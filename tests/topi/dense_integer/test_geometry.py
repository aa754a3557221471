"""Rows of words: when they are copied, and how weights are packed."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.types import U8S8, U8S16
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.geometry import (
    IntegerDenseConfig,
    IntegerDenseGeometry,
    misfit,
)

DENSE = DenseWorkload(12, 64, 40, U8S8)
CONFIG = IntegerDenseConfig(oc_bn=16, reg_n=6, tiles=2, dot=4)


def test_bytes_are_read_as_they_lie_and_16_bits_are_a_copy() -> None:
    assert not IntegerDenseGeometry(DENSE, CONFIG).copies
    assert IntegerDenseGeometry(DENSE, replace(CONFIG, dot=2)).copies
    assert IntegerDenseGeometry(replace(DENSE, in_features=63), CONFIG).copies
    assert IntegerDenseGeometry(replace(DENSE, batch=11), CONFIG).copies


def test_words_of_a_row() -> None:
    geometry = IntegerDenseGeometry(replace(DENSE, in_features=63), CONFIG)
    assert geometry.words == geometry.tiles.inner == 16
    assert geometry.packed_shape == (3, 16, 16)


def test_misfits() -> None:
    assert misfit(DENSE, CONFIG) is None
    assert misfit(replace(DENSE, types=U8S16), CONFIG) is not None
    assert misfit(DENSE, replace(CONFIG, signed=True)) is None
    assert misfit(DENSE, replace(CONFIG, signed=True, dot=2)) is not None
    assert misfit(DENSE, replace(CONFIG, dot=8)) == "no word has 8 elements"
    assert misfit(DENSE, replace(CONFIG, reg_n=0)) == "its tiles are empty"
