"""MatMulNBits: weights of 4 and 8 bits, as ONNX Runtime's optimiser packs them."""

from __future__ import annotations

import numpy as np
import pytest
from contrib_node import model_of
from onnx_text import Array, check_like_peer, normal

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

ROWS, BLOCK = 5, 16


def packed(bits: int, wide: int, zeros: str) -> dict[str, Array]:
    rng = np.random.default_rng(bits)
    blocks = -(-wide // BLOCK)
    found = {
        "b": rng.integers(0, 256, (ROWS, blocks, BLOCK * bits // 8), "uint8"),
        "s": rng.random(ROWS * blocks, "float32"),
    }
    if zeros == "bytes":
        found["z"] = rng.integers(0, 256, ROWS * -(-blocks * bits // 8), "uint8")
    return found


@pytest.mark.parametrize("zeros", ["none", "bytes"])
@pytest.mark.parametrize("wide", [48, 40])
@pytest.mark.parametrize("bits", [4, 8])
def test_packed_weights(bits: int, wide: int, zeros: str) -> None:
    """A row of an odd number of blocks; the last block may be longer than the row."""
    data, weights = {"x": normal(2, 3, wide)}, packed(bits, wide, zeros)
    options = {"K": wide, "N": ROWS, "bits": bits, "block_size": BLOCK}
    order = "x b s z" if zeros == "bytes" else "x b s"
    check_like_peer(model_of("MatMulNBits", data, weights, order, **options), **data)


def test_a_bias() -> None:
    data = {"x": normal(3, 48)}
    weights = {**packed(4, 48, "none"), "c": normal(ROWS, seed=1)}
    options = {"K": 48, "N": ROWS, "bits": 4, "block_size": BLOCK}
    check_like_peer(model_of("MatMulNBits", data, weights, "x b s - - c", **options), **data)


def test_other_widths_are_refused() -> None:
    data, weights = {"x": normal(2, 48)}, packed(4, 48, "none")
    options = {"K": 48, "N": ROWS, "bits": 2, "block_size": BLOCK}
    with pytest.raises(UnsupportedOperatorError, match="MatMulNBits"):
        relay.frontend.from_onnx(model_of("MatMulNBits", data, weights, "x b s", **options))
