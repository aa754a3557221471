"""Winograd's weights: made in parts, they are what one product makes of all kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.core.network import weight_transform
from tvm_neocpu.core.network.weight_transform import WeightTransform

# F(2, 3), over 24 x 8 kernels in blocks of 8 and 4 channels.
G = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
TRANSFORM = WeightTransform(G, G, "float32", (4, 4, 3, 8, 2, 4), (2, 0, 1, 4, 5, 3), "float32")
WORDS = WeightTransform(G, G, "int16", (4, 4, 3, 8, 2, 2, 2), (2, 0, 1, 4, 5, 3, 6), "int32")


@pytest.mark.parametrize("at_once", [1, 64, 128, 10_000])
def test_parts_are_what_one_product_makes(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_transform, "KERNELS_AT_ONCE", at_once)
    kernels = np.random.default_rng(1).standard_normal((24, 8, 3, 3)).astype("float32")
    g = np.array(G)
    expected = np.einsum("ap,kcpq,bq->abkc", g, kernels.astype("float64"), g).astype("float32")
    expected = expected.reshape(TRANSFORM.blocks).transpose(TRANSFORM.order)
    made = TRANSFORM.packed(kernels.reshape(-1, 9))
    assert made.shape == TRANSFORM.shape == (3, 4, 4, 2, 4, 8)
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("at_once", [1, 10_000])
def test_words_are_made_in_parts_too(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_transform, "KERNELS_AT_ONCE", at_once)
    kernels = 2 * np.random.default_rng(1).integers(-60, 60, (24, 8, 3, 3))
    g = np.array(G)
    expected = np.einsum("ap,kcpq,bq->abkc", g, kernels, g).astype("int16")
    expected = expected.reshape(WORDS.blocks).transpose(WORDS.order)
    made = WORDS.packed(kernels.reshape(-1, 9))
    assert made.shape == WORDS.shape == expected.shape[:-1]
    assert np.array_equal(made.view("int16").reshape(expected.shape), expected)


def test_bf16_keeps_what_is_no_number() -> None:
    """The last of these NaNs would overflow to zero, the first round to infinity."""
    bits = np.array([0x7F800001, 0x7FC00000, 0xFFFFFFFF], "uint32")
    with np.errstate(invalid="ignore"):
        numbers = bits.view("float32").astype("float64")
    rounded = weight_transform._rounded(np.append(numbers, [1.0, np.inf, -np.inf]), "bfloat16")
    assert rounded.tolist() == [0x7FC0] * 3 + [0x3F80, 0x7F80, 0xFF80]
