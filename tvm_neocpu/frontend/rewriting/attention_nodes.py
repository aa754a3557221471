"""ONNX Runtime's attention, as nodes of ONNX's own operators.

    y = Attention(x, w, b)   ->   q, k, v = Split(x @ w + b), each (N, heads, rows, width)
                                  y = Softmax(q @ k^T * scale + mask) @ v, its heads side by side

The operators have the domain ``com.microsoft``; ``ContribOperators.md`` of ONNX Runtime defines
them, its CPU kernels what that leaves open. States of earlier calls (`past`, `present`) belong to
text decoders: nodes with them stay, and are refused.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from tvm_neocpu.frontend.rewriting.integer_products import dequantized_product
from tvm_neocpu.frontend.rewriting.node_body import Body

# (N, rows, heads, width) <-> (N, heads, rows, width), and keys as columns.
HEADS_FIRST, KEYS = [0, 2, 1, 3], [0, 2, 3, 1]
HIDDEN = -10000.0


def attention(body: Body) -> str | None:
    """Of rows with themselves: ``(x @ w + b)`` holds queries, keys and values side by side."""
    if _has(body, 4, 6) or _is_set(body, "do_rotary") or any(body.results[1:]):
        return None
    projected = body.add("MatMul", body.input(0), body.input(1))
    if body.input(2):
        projected = body.add("Add", projected, body.input(2))
    return _self_attention(body, projected, mask=3, scores=5)


def quantized_attention(body: Body) -> str | None:
    """The same, whose first product is one of integers."""
    if _has(body, 8) or any(body.results[1:]):
        return None
    names = [body.input(place) for place in range(8)]
    zeros = [names[6], names[7]]
    projected = dequantized_product(body, names[:2], names[3:5], zeros, names[2])
    return _self_attention(body, projected, mask=5, like=2)


def _self_attention(
    body: Body, projected: str, mask: int, scores: int | None = None, like: int = 0
) -> str | None:
    """Of rows that hold queries, keys and values side by side, of the type of an input."""
    total = body.extent(1, 1)
    if total is None:
        return None
    widths = list(body.attributes.get("qkv_hidden_sizes", [])) or [total // 3] * 3
    parts = body.split(projected, widths)
    heads = int(body.attributes["num_heads"])
    queries, values = (
        body.add("Transpose", _heads(body, parts[at], heads), perm=HEADS_FIRST) for at in (0, 2)
    )
    keys = body.add("Transpose", _heads(body, parts[1], heads), perm=KEYS)
    return _attended(body, queries, keys, values, widths[0] // heads, mask, scores, like)


def multi_head_attention(body: Body) -> str | None:
    """Queries ``(N, rows, heads * width)``; keys and values alike, or with their heads in front."""
    if _has(body, 6, 7, 8, 9) or any(body.results[1:]) or not body.input(1) or not body.input(2):
        return None
    ranks, hidden = [body.rank(place) for place in range(3)], body.extent(0, 2)
    if hidden is None or ranks not in ([3, 3, 3], [3, 4, 4]):
        return None
    parts, heads = body.inputs[:3], int(body.attributes["num_heads"])
    if body.input(3):
        total = body.extent(3, 0)
        if total is None or ranks[1] == 4:
            return None
        biases = body.split(body.input(3), [hidden, hidden, total - 2 * hidden])
        parts = [body.add("Add", *pair) for pair in zip(parts, biases, strict=True)]
    queries = body.add("Transpose", _heads(body, parts[0], heads), perm=HEADS_FIRST)
    if ranks[1] == 4:
        keys, values = body.add("Transpose", parts[1], perm=[0, 1, 3, 2]), parts[2]
    else:
        keys = body.add("Transpose", _heads(body, parts[1], heads), perm=KEYS)
        values = body.add("Transpose", _heads(body, parts[2], heads), perm=HEADS_FIRST)
    return _attended(body, queries, keys, values, hidden // heads, mask=4, scores=5)


def _heads(body: Body, rows: str, heads: int) -> str:
    """``(N, rows, heads * width)`` -> ``(N, rows, heads, width)``."""
    return body.add("Reshape", rows, body.int64([0, 0, heads, -1]))


def _attended(
    body: Body,
    queries: str,
    keys: str,
    values: str,
    width: int,
    mask: int,
    scores: int | None = None,
    like: int = 0,
) -> str | None:
    """The values' mean, weighted by the scores of each query; heads side by side.

    ``mask``, ``scores`` and ``like`` are places among the node's inputs: which keys count, what is
    added to the scores, and what has their element type.
    """
    scale = body.attributes.get("scale", 0.0) or 1 / math.sqrt(width)  # 0 means the default
    product = body.add("Mul", body.add("MatMul", queries, keys), body.constant(scale, like))
    if scores is not None and body.input(scores):
        product = body.add("Add", product, body.input(scores))
    # ONNX Runtime takes a mask (N, 1) for none.
    if body.input(mask) and (body.rank(mask) != 2 or body.extent(mask, 1) != 1):
        hidden = _hidden_keys(body, mask, keys, like)
        if hidden is None:
            return None
        product = body.add("Add", product, hidden)
    if _is_set(body, "unidirectional"):
        product = _without_later(body, product, like)
    weights = body.add("Softmax", product, axis=-1)
    mixed = body.add("Transpose", body.add("MatMul", weights, values), perm=HEADS_FIRST)
    return body.add("Reshape", mixed, body.int64([0, 0, -1]))


def _hidden_keys(body: Body, place: int, keys: str, like: int) -> str | None:
    """Added to the scores: 0 where a key counts, a large negative number where it does not.

    A mask has ones of ``(N, keys)`` or ``(N, rows, keys)``; or ``(N,)`` numbers of keys, behind
    which in ``(2 N,)`` the first keys follow. ``None`` for other masks.
    """
    mask, rank = body.input(place), body.rank(place)
    if rank == 1:
        counts = _counted(body, place, keys)
    elif rank in (2, 3):
        axes = [1, 2] if rank == 2 else [1]
        counts = body.add("Greater", mask, body.constant(0, place))
        counts = body.unsqueeze(counts, axes)
    else:
        return None
    if counts is None:
        return None
    shown = body.constant(0.0, like)
    hidden = body.constant(body.attributes.get("mask_filter_value", HIDDEN), like)
    return body.add("Where", counts, shown, hidden)


def _counted(body: Body, place: int, keys: str) -> str | None:
    """Booleans ``(N, 1, 1, keys)``: the keys in front of an end, and behind a start if given."""
    ends, batch = body.extent(place, 0), body.extent(0, 0)
    if ends is None or batch is None or ends not in (batch, 2 * batch):
        return None
    places = body.counted(keys, 3)
    bounds = body.add("Cast", body.input(place), to=TensorProto.INT64)
    # The ends, and the starts if they are given: (1 or 2, N, 1, 1, 1).
    column = body.add("Reshape", bounds, body.int64([-1, batch, 1, 1, 1]))
    end = body.add("Gather", column, body.int64(0), axis=0)
    counts = body.add("Less", places, end)
    if ends == batch:
        return counts
    start = body.add("Gather", column, body.int64(1), axis=0)
    return body.add("And", counts, body.add("Not", body.add("Less", places, start)))


def _without_later(body: Body, product: str, like: int) -> str:
    """The scores of ``(.., rows, keys)`` without those of keys behind their row.

    The last row sees all keys, also those beyond the number of rows, as in ONNX Runtime.
    """
    column, keys = body.unsqueeze(body.counted(product, 2), [1]), body.counted(product, 3)
    last = body.add("Sub", body.extent_of(product, 2), body.int64(1))
    is_last = body.add("Equal", column, last)
    later = body.add("And", body.add("Less", column, keys), body.add("Not", is_last))
    lowest = body.constant(float(np.finfo("float32").min), like)
    return body.add("Where", later, lowest, product)


def rotary_embedding(body: Body) -> str | None:
    """Pairs of a head's elements turned by the angles of their row."""
    rank, half = body.rank(0), body.extent(2, 1)
    if rank not in (3, 4) or half is None or _is_set(body, "is_packed_batching"):
        return None
    data, turned = body.input(0), 2 * half
    if rank == 3:
        hidden = body.extent(0, 2)
        heads = int(body.attributes.get("num_heads", 0))
        heads = heads or (hidden // turned if hidden is not None else 0)
        if not heads:
            return None
        data = _heads(body, data, heads)
    rows = _rows_of_angles(body)
    if rows is None:
        return None
    # Angles are (N, rows, half); heads stand behind the rows of three axes, in front in four.
    cosine, sine = (
        body.unsqueeze(body.add("Gather", body.input(table), rows, axis=0), [2 if rank == 3 else 1])
        for table in (2, 3)
    )
    step = 2 if _is_set(body, "interleaved") else 1
    firsts = [(0, turned, 2), (1, turned, 2)] if step == 2 else [(0, half, 1), (half, turned, 1)]
    one, other = (body.slice(data, 3, *bounds) for bounds in firsts)
    pair = [
        body.add("Sub", body.add("Mul", one, cosine), body.add("Mul", other, sine)),
        body.add("Add", body.add("Mul", one, sine), body.add("Mul", other, cosine)),
    ]
    if step == 2:
        joined = body.add("Concat", *(body.unsqueeze(part, [4]) for part in pair), axis=4)
        pair = [body.add("Reshape", joined, body.int64([0, 0, 0, -1]))]
    rest = body.slice(data, 3, turned, np.iinfo("int64").max, 1)
    result = body.add("Concat", *pair, rest, axis=3)
    return body.add("Reshape", result, body.int64([0, 0, -1])) if rank == 3 else result


def _rows_of_angles(body: Body) -> str | None:
    """Rows ``(N, rows)`` of the tables; one number is that of the first row."""
    if body.rank(1) == 2:
        return body.input(1)
    if body.rank(1) != 1:
        return None
    places = body.counted(body.input(0), 1 if body.rank(0) == 3 else 2)
    return body.unsqueeze(body.add("Add", places, body.input(1)), [0])


def embed_layer_normalization(body: Body) -> str | None:
    """Rows of words, places and segments, added and normalised.

    The second result counts the words of a mask, the third is the sum.
    """
    words, segments, mask = body.input(0), body.input(1), body.input(7)
    places = body.input(8) or body.counted(words, 1)
    total = body.add("Gather", body.input(2), words, axis=0)
    total = body.add("Add", total, body.add("Gather", body.input(3), places, axis=0))
    if segments:
        total = body.add("Add", total, body.add("Gather", body.input(4), segments, axis=0))
    body.named(total, 2)
    if len(body.results) > 1 and body.results[1]:
        if not mask or body.opset < 13:
            return None
        body.named(body.add("ReduceSum", mask, body.int64([1]), keepdims=0), 1)
    epsilon = body.attributes.get("epsilon", 1e-12)
    gamma, beta = body.input(5), body.input(6)
    return body.add("LayerNormalization", total, gamma, beta, axis=-1, epsilon=epsilon)


def _has(body: Body, *places: int) -> bool:
    return any(body.input(place) for place in places)


def _is_set(body: Body, attribute: str) -> bool:
    return bool(body.attributes.get(attribute, 0))
