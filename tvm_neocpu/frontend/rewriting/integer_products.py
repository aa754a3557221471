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
