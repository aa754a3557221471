"""Attention as ONNX Runtime's optimiser writes it computes here what it computes there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from contrib_node import model_of
from onnx_text import Array, check_like_peer, normal

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

BATCH, ROWS, HEADS, WIDTH = 2, 5, 2, 4
HIDDEN = HEADS * WIDTH
X = normal(BATCH, ROWS, HIDDEN)
W, B = normal(HIDDEN, 3 * HIDDEN, seed=1), normal(3 * HIDDEN, seed=2)


def check(
    op_type: str,
    inputs: Mapping[str, Array],
    order: str,
    constants: Mapping[str, Array] | None = None,
    **options: object,
) -> None:
    model = model_of(op_type, inputs, constants or {}, order, **options)
    check_like_peer(model, **inputs)


MASKS = {
    "ends": np.array([3, 5], "int32"),
    "ends and starts": np.array([4, 5, 1, 0], "int32"),
    "keys": np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]], "int32"),
    "rows": (normal(BATCH, ROWS, ROWS, seed=4) > -0.5).astype("int32"),
    "none counts": np.zeros((BATCH, ROWS), "int32"),
}


@pytest.mark.parametrize("opset", [11, 17])
def test_attention(opset: int) -> None:
    check("Attention", {"x": X}, "x w b", {"w": W, "b": B}, num_heads=HEADS, opset=opset)


@pytest.mark.parametrize("mask", MASKS)
def test_attention_with_a_mask(mask: str) -> None:
    """A run-time mask; scores of their own are added, too."""
    added = {"s": normal(1, HEADS, ROWS, ROWS, seed=5)}
    fixed = {"w": W, "b": B}
    given = {"x": X, "m": MASKS[mask]}
    check("Attention", given, "x w b m", fixed, num_heads=HEADS)
    check("Attention", given, "x w b m - s", {**fixed, **added}, num_heads=HEADS, scale=0.3)


def test_attention_to_earlier_rows() -> None:
    for order, given in (("x w b", {"x": X}), ("x w b m", {"x": X, "m": MASKS["keys"]})):
        fixed = {"w": W, "b": B}
        check("Attention", given, order, fixed, num_heads=HEADS, unidirectional=1)


def test_attention_of_narrow_values() -> None:
    sizes, fixed = [HIDDEN, HIDDEN, 6], {"w": W[:, : 2 * HIDDEN + 6], "b": B[: 2 * HIDDEN + 6]}
    check("Attention", {"x": X}, "x w b", fixed, num_heads=HEADS, qkv_hidden_sizes=sizes)


@pytest.mark.parametrize("zeros", [False, True])
def test_quantized_attention(zeros: bool) -> None:
    """Weights of 7 bits: without VNNI, two of ONNX Runtime's products of 8 bits saturate."""
    rng = np.random.default_rng(0)
    fixed = {
        "w": rng.integers(-64, 64, W.shape, "int8"),
        "b": B,
        "s": np.float32(0.02),
        "t": np.float32(0.01),
        **({"z": np.uint8(120), "k": np.int8(3)} if zeros else {}),
    }
    given = {"x": rng.integers(0, 255, X.shape, "uint8"), "m": MASKS["keys"]}
    order = "x w b s t m z k" if zeros else "x w b s t m"
    check("QAttention", given, order, fixed, num_heads=HEADS)


KEYS = normal(BATCH, 7, HIDDEN, seed=6)
VALUES = normal(BATCH, 7, 6, seed=7)


def test_multi_head_attention() -> None:
    """To other rows, of which values are narrower; with and without a bias of all three."""
    given = {"q": X, "k": KEYS, "v": VALUES}
    check("MultiHeadAttention", given, "q k v", num_heads=HEADS)
    bias = {"b": normal(2 * HIDDEN + 6, seed=8)}
    check("MultiHeadAttention", given, "q k v b", bias, num_heads=HEADS, scale=0.7)


def test_multi_head_attention_with_heads_in_front() -> None:
    heads = {name: normal(BATCH, HEADS, 7, WIDTH, seed=at) for at, name in enumerate("kv")}
    check("MultiHeadAttention", {"q": X, **heads}, "q k v", num_heads=HEADS)


def test_multi_head_attention_with_a_mask() -> None:
    given = {"q": X, "k": KEYS, "v": VALUES, "m": np.arange(14, dtype="int32").reshape(2, 7) % 3}
    scores = {"s": normal(BATCH, 1, ROWS, 7, seed=9)}
    check("MultiHeadAttention", given, "q k v - m s", scores, num_heads=HEADS)
    rows = {**given, "m": (normal(BATCH, ROWS, 7, seed=3) > 0).astype("int32")}
    check("MultiHeadAttention", rows, "q k v - m", num_heads=HEADS)


@pytest.mark.parametrize("rows", [1, 5, 9])
def test_multi_head_attention_to_earlier_rows(rows: int) -> None:
    """Fewer rows than keys, and more: the last row sees all keys."""
    given = {"q": normal(BATCH, rows, HIDDEN), "k": KEYS, "v": VALUES}
    check("MultiHeadAttention", given, "q k v", num_heads=HEADS, unidirectional=1)


def test_a_mask_of_one_key_is_none() -> None:
    given = {"x": X, "m": np.zeros((BATCH, 1), "int32")}
    lowest = float(np.finfo("float32").min)
    fixed = {"w": W, "b": B}
    check("Attention", given, "x w b m", fixed, num_heads=HEADS, mask_filter_value=lowest)


TABLES = {"c": normal(16, 2, seed=1), "n": normal(16, 2, seed=2)}


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    "places", [np.array([3], "int64"), np.array([[0, 1, 2, 3, 4], [9, 7, 5, 3, 1]], "int64")]
)
def test_rotary_embedding(places: Array, interleaved: int) -> None:
    """Three axes, four axes, and heads of which a part is turned."""
    for rows in (X, normal(BATCH, HEADS, ROWS, WIDTH)):
        given = {"x": rows, "p": places}
        check("RotaryEmbedding", given, "x p c n", TABLES, interleaved=interleaved)
    wide = {"x": normal(BATCH, ROWS, 2 * 6), "p": places}
    check(
        "RotaryEmbedding",
        wide,
        "x p c n",
        TABLES,
        interleaved=interleaved,
        num_heads=2,
        rotary_embedding_dim=4,
    )


@pytest.mark.parametrize("places", [True, False])
def test_embedded_words(places: bool) -> None:
    rng = np.random.default_rng(1)
    fixed = {
        name: normal(number, 8, seed=number) for name, number in (("a", 11), ("b", 6), ("c", 2))
    }
    fixed |= {"g": normal(8, seed=3), "h": normal(8, seed=4)}
    words = rng.integers(0, 11, (BATCH, ROWS), "int32")
    given = {"x": words, "s": words % 2, "m": (words > 3).astype("int32")}
    order = "x s a b c g h m"
    if places:
        given["p"] = np.flip(np.arange(10, dtype="int32").reshape(2, 5) % 6, 1).copy()
        order += " p"
    check("EmbedLayerNormalization", given, order, fixed, outputs="y n t")


def test_other_nodes() -> None:
    check("ExpandDims", {"x": X}, "x a", {"a": np.int32(1)})
    check("ExpandDims", {"x": X}, "x a", {"a": np.int32(-1)})
    repeated = (np.arange(9) * 5 % 4).astype("float32")
    check("Unique", {"x": repeated}, "x", outputs="y i n")


@pytest.mark.parametrize(
    ("op_type", "order", "outputs"),
    [("Attention", "x w b - p", "y s"), ("MultiHeadAttention", "x x x - - - p r", "y s t")],
)
def test_states_of_decoders_are_refused(op_type: str, order: str, outputs: str) -> None:
    past = normal(2, BATCH, HEADS, 3, WIDTH) if op_type == "Attention" else normal(2, 2, 3, 4)
    inputs = {"x": X, "p": past} | ({} if op_type == "Attention" else {"r": past})
    fixed = {"w": W, "b": B} if op_type == "Attention" else {}
    model = model_of(op_type, inputs, fixed, order, outputs, num_heads=HEADS)
    with pytest.raises(UnsupportedOperatorError, match=f"com.microsoft::{op_type}"):
        relay.frontend.from_onnx(model)
