"""Operators that ONNX Runtime's optimiser writes into files, as nodes of ONNX's own operators.

    y = FusedConv<activation = "Relu">(x, w, b, z)   ->   y/conv = Conv(x, w, b)
                                                          y/sum = Add(y/conv, z)
                                                          y = Relu(y/sum)

They have the domain ``com.microsoft``, and onnx has no schemas of them. ONNX Runtime's
``ContribOperators.md`` defines them. Those that stay nodes have converters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import onnx
from onnx import TensorProto, helper

from tvm_neocpu.frontend.rewriting.attention_nodes import (
    attention,
    embed_layer_normalization,
    multi_head_attention,
    quantized_attention,
    rotary_embedding,
)
from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames
from tvm_neocpu.frontend.rewriting.integer_products import (
    dequantized_product,
    product_with_packed_weights,
)
from tvm_neocpu.frontend.rewriting.node_body import Body

DOMAIN = "com.microsoft"


def onnx_runtime_nodes(
    node: onnx.NodeProto,
    types: Sequence[onnx.TypeProto | None],
    opset: int,
    fresh: FreshNames,
    activations: bool = False,
) -> list[onnx.NodeProto] | None:
    """The nodes in place of one of ONNX Runtime's own; ``None`` for a node that stays.

    ``types`` has one entry for each input, ``None`` where it is not known. ``activations`` that
    have converters are written out, too.
    """
    write = _BODIES.get(node.op_type) or (_GELUS.get(node.op_type) if activations else None)
    if node.domain != DOMAIN or write is None or not any(node.output):
        return None
    body = Body(node, types, opset, fresh)
    result = write(body)
    if result is None:
        return None
    body.named(result)
    return body.nodes


def in_standard_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, or a copy with ONNX's own operators where ONNX Runtime fused some.

    A node stays whose body needs a rank that onnx does not infer, as in an ``If`` or a ``Loop``.
    """
    while any(node.domain == DOMAIN for node in model.graph.node):
        graph = onnx.shape_inference.infer_shapes(model).graph
        known_types = (*graph.input, *graph.output, *graph.value_info)
        types = {value.name: value.type for value in known_types}
        for tensor in graph.initializer:
            types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        nodes: list[onnx.NodeProto] = []
        opset, fresh = _opset(model), FreshNames(graph)
        for node in graph.node:
            known = [types.get(name) for name in node.input]
            nodes += onnx_runtime_nodes(node, known, opset, fresh, activations=True) or [node]
        if len(nodes) == len(graph.node):
            break
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.node[:]
        copy.graph.node.extend(nodes)
        model = copy
    return model


def _opset(model: onnx.ModelProto) -> int:
    return max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def has_type_of_first_input(node: onnx.NodeProto) -> bool:
    """Whether the first result of a node has the element type and shape of its first input."""
    return node.domain == DOMAIN and node.op_type in _ALIKE


def _fused_conv(body: Body) -> str | None:
    attributes = dict(body.attributes)
    activation = attributes.pop("activation", b"").decode()
    numbers = attributes.pop("activation_params", ())
    result = body.add("Conv", *(body.input(place) for place in range(3)), **attributes)
    if body.input(3):
        result = body.add("Add", result, body.input(3))
    return _activated(body, result, activation, numbers)


def _fused_gemm(body: Body) -> str | None:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    attributes = dict(body.attributes)
    activation = attributes.pop("activation", b"").decode()
    numbers = [attributes.pop(name) for name in names if name in attributes]
    result = body.add("Gemm", *(body.input(place) for place in range(3)), **attributes)
    return _activated(body, result, activation, numbers)


def _activated(body: Body, value: str, activation: str, numbers: Sequence[float]) -> str | None:
    """The activation's result; its numbers stand in the order of its attributes."""
    if not activation:
        return value
    attributes = _ACTIVATIONS.get(activation)
    if attributes is None:
        return None
    if activation == "Clip" and body.opset >= 11:
        return body.add("Clip", value, *(body.constant(number) for number in numbers))
    return body.add(activation, value, **dict(zip(attributes, numbers, strict=False)))


_ACTIVATIONS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "Clip": ("min", "max"),
        "Elu": ("alpha",),
        "HardSigmoid": ("alpha", "beta"),
        "LeakyRelu": ("alpha",),
        "Relu": (),
        "Sigmoid": (),
        "Softplus": (),
        "Softsign": (),
        "Tanh": (),
        "ThresholdedRelu": ("alpha",),
    }
)


def _fused_matmul(body: Body) -> str | None:
    """``alpha * A @ B``; either may be transposed, or have its rows in front of its batches."""
    factors = []
    for place, name in enumerate("AB"):
        value = body.input(place)
        swaps, rows_first = (
            body.attributes.get(what + name, 0) for what in ("trans", "transBatch")
        )
        rank = body.rank(place)
        if not swaps and not rows_first:
            factors.append(value)
            continue
        if rank is None:
            return None
        order = list(range(rank))
        if rows_first:
            order.insert(rank - 2, order.pop(0))
        if swaps and rank > 1:
            order[-2:] = order[:-3:-1]
        factors.append(body.add("Transpose", value, perm=order))
    result = body.add("MatMul", *factors)
    alpha = body.attributes.get("alpha", 1.0)
    return result if alpha == 1 else body.add("Mul", result, body.constant(alpha))


def _quick_gelu(body: Body) -> str:
    data, alpha = body.input(0), body.attributes.get("alpha", 1.702)
    scaled = data if alpha == 1 else body.add("Mul", data, body.constant(alpha))
    return body.add("Mul", data, body.add("Sigmoid", scaled))


def _gelu(body: Body) -> str:
    """``0.5 x (1 + erf(x / sqrt 2))``, where x may have a bias."""
    data = body.add("Add", *body.inputs[:2]) if body.input(1) else body.input(0)
    scaled = body.add("Mul", data, body.constant(math.sqrt(0.5)))
    return _gated(body, data, body.add("Erf", scaled))


def _fast_gelu(body: Body) -> str:
    """``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``, where x may have a bias."""
    data = body.add("Add", *body.inputs[:2]) if body.input(1) else body.input(0)
    cube = body.add("Mul", body.add("Mul", data, data), data)
    total = body.add("Add", data, body.add("Mul", cube, body.constant(0.044715)))
    scaled = body.add("Mul", total, body.constant(math.sqrt(2 / math.pi)))
    return _gated(body, data, body.add("Tanh", scaled))


def _gated(body: Body, data: str, gate: str) -> str:
    half = body.add("Mul", data, body.constant(0.5))
    return body.add("Mul", half, body.add("Add", gate, body.constant(1)))


def _skip(op_type: str, factors: int) -> Callable[[Body], str | None]:
    """``normalised(x + skip [+ bias])``; the sum is the fourth result.

    ``factors`` of the inputs are the normalisation's own scale and offset.
    """

    def write(body: Body) -> str | None:
        if any(body.results[1:3]):  # mean and deviation, which inference does without
            return None
        total, bias = body.add("Add", body.input(0), body.input(1)), body.input(2 + factors)
        if bias:
            total = body.add("Add", total, bias)
        body.named(total, 3)
        own = [body.input(2 + place) for place in range(factors)]
        epsilon = body.attributes.get("epsilon", 1e-12)
        return body.add(op_type, total, *own, axis=-1, epsilon=epsilon)

    return write


def _dynamic_product(body: Body) -> str:
    codes, scale, zero = body.add_all("DynamicQuantizeLinear", body.input(0), outputs=3)
    zeros = (zero, body.input(3))
    return dequantized_product(
        body, (codes, body.input(1)), (scale, body.input(2)), zeros, body.input(4)
    )


def _integer_product(body: Body) -> str:
    names = [body.input(place) for place in range(7)]
    return dequantized_product(body, names[:2], names[2:4], names[4:6], names[6])


def _expanded(body: Body) -> str | None:
    """An axis of one element at a place that is a number without axes."""
    if body.opset < 13:  # the place would have to be known here
        return None
    axes = body.add("Reshape", body.input(1), body.int64([1]))
    return body.add("Unsqueeze", body.input(0), body.add("Cast", axes, to=TensorProto.INT64))


def _distinct(body: Body) -> str:
    """Values in the order in which they come first, places among them, and how often each is."""
    names = body.add_all("Unique", body.input(0), outputs=4, sorted=0)
    body.named(names[2], 1)
    body.named(names[3], 2)
    return names[0]


def _quantized_where(body: Body) -> str:
    """``Where(condition, x, y)`` of three coded tensors, each with a scale and a zero point."""
    names = [body.input(place) for place in range(9)]
    real = [body.add("DequantizeLinear", *names[at : at + 3]) for at in (1, 4)]
    return body.add("QuantizeLinear", body.add("Where", names[0], *real), *names[7:])


def _channels_last(op_type: str, domain: str) -> Callable[[Body], str | None]:
    """An operator on ``(N, ..., C)``: transposed, on ``(N, C, ...)``, transposed back."""

    def write(body: Body) -> str | None:
        attributes = {**body.attributes}
        if op_type != "MaxPool" and not attributes.pop("channels_last", 0):
            # ONNX's own operator has no such attribute.
            return None if domain else body.add(op_type, *body.inputs, **attributes)
        rank = body.rank(0)
        if rank is None:
            return None
        there, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        data = body.add("Transpose", body.input(0), perm=there)
        result = body.add(op_type, data, *body.inputs[1:], domain=domain, **attributes)
        return body.add("Transpose", result, perm=back)

    return write


_BODIES: Mapping[str, Callable[[Body], str | None]] = MappingProxyType(
    {
        "Attention": attention,
        "DynamicQuantizeMatMul": _dynamic_product,
        "EmbedLayerNormalization": embed_layer_normalization,
        "ExpandDims": _expanded,
        "FusedConv": _fused_conv,
        "FusedGemm": _fused_gemm,
        "FusedMatMul": _fused_matmul,
        "MatMulIntegerToFloat": _integer_product,
        "MatMulNBits": product_with_packed_weights,
        "MultiHeadAttention": multi_head_attention,
        "NhwcMaxPool": _channels_last("MaxPool", ""),
        "QAttention": quantized_attention,
        "QLinearAveragePool": _channels_last("QLinearAveragePool", DOMAIN),
        "QLinearConv": _channels_last("QLinearConv", ""),
        "QLinearGlobalAveragePool": _channels_last("QLinearGlobalAveragePool", DOMAIN),
        "QLinearWhere": _quantized_where,
        "QuickGelu": _quick_gelu,
        "RotaryEmbedding": rotary_embedding,
        "SkipLayerNormalization": _skip("LayerNormalization", 2),
        "SkipSimplifiedLayerNormalization": _skip("SimplifiedLayerNormalization", 1),
        "TransposeMatMul": _fused_matmul,
        "Unique": _distinct,
    }
)
_GELUS: Mapping[str, Callable[[Body], str]] = MappingProxyType(
    {"BiasGelu": _gelu, "FastGelu": _fast_gelu, "Gelu": _gelu}
)
_ALIKE = frozenset(
    ["BiasGelu", "FastGelu", "Gelu", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"]
)
