"""Products of integers with scales, as nodes of ONNX's own operators."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from tvm_neocpu.frontend.rewriting.node_body import Body


def dequantized_product(
    body: Body, codes: Sequence[str], scales: Sequence[str], zeros: Sequence[str], bias: str
) -> str:
    """``(A - zero) @ (B - zero) * scale of A * scale of B [+ bias]``, the product in integers."""
    whole = body.add("MatMulInteger", *codes, *zeros)
    scale = body.add("Mul", *scales)
    result = body.add("Mul", body.add("Cast", whole, to=TensorProto.FLOAT), scale)
    return body.add("Add", result, bias) if bias else result


def product_with_packed_weights(body: Body) -> str | None:
    """``A @ W^T [+ bias]``: weights of 4 or 8 bits, with a scale for each block along a row.

    ``B``: (rows, blocks, bytes of a block), of 4 bits the lower half first; zero points are bytes
    packed in the same way, or floats, by default the middle of the codes.
    """
    bits, wide = (int(body.attributes.get(name, 0)) for name in ("bits", "K"))
    rows, block = (int(body.attributes[name]) for name in ("N", "block_size"))
    if bits not in (4, 8) or body.input(4):
        return None
    blocks = -(-wide // block)
    codes = _unpacked(body, body.input(1), bits, [rows, blocks, -1])
    middle = body.constant(2 ** (bits - 1))
    if body.input(3) and body.rank(3) is None:
        return None
    if body.input(3):
        middle = body.input(3)
        if body.is_integer(3):
            middle = _unpacked(body, middle, bits, [rows, -1])
            middle = body.slice(middle, 1, 0, blocks, 1)
        middle = body.add("Reshape", middle, body.int64([rows, blocks, 1]))
    scale = body.add("Reshape", body.input(2), body.int64([rows, blocks, 1]))
    weights = body.add("Mul", body.add("Sub", codes, middle), scale)
    weights = body.add("Reshape", weights, body.int64([rows, blocks * block]))
    weights = body.slice(weights, 1, 0, wide, 1)
    result = body.add("MatMul", body.input(0), body.add("Transpose", weights, perm=[1, 0]))
    return body.add("Add", result, body.input(5)) if body.input(5) else result


def _unpacked(body: Body, packed: str, bits: int, shape: Sequence[int]) -> str:
    """Bytes as floats of ``shape``; of 4 bits two each."""
    codes = body.add("Cast", packed, to=TensorProto.FLOAT)
    if bits == 4:
        high = body.add("Floor", body.add("Mul", codes, body.constant(1 / 16)))
        low = body.add("Sub", codes, body.add("Mul", high, body.constant(16)))
        pair = (body.add("Reshape", part, body.int64([-1, 1])) for part in (low, high))
        codes = body.add("Concat", *pair, axis=1)
    return body.add("Reshape", codes, body.int64(shape))
