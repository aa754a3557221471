"""Words of the bf16 dense template: pairs of features, rows always copied."""

from __future__ import annotations

from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig, Bf16DenseGeometry, misfit

DENSE = DenseWorkload(6, 33, 24, BF16_WEIGHTS)


def test_a_word_is_filled_up() -> None:
    geometry = Bf16DenseGeometry(DENSE, Bf16DenseConfig(oc_bn=16, reg_n=3))
    assert geometry.words == geometry.tiles.inner == 17
    assert geometry.packed_shape == (2, 17, 16)
    assert geometry.data_type == "uint16" and geometry.copies


def test_empty_tiles_are_refused() -> None:
    assert misfit(DENSE, Bf16DenseConfig(oc_bn=16, reg_n=3)) is None
    assert misfit(DENSE, Bf16DenseConfig(oc_bn=16, reg_n=0)) == "its tiles are empty"
