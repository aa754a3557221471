"""Elementwise operations: one input's layout is handed on, several inputs join in one."""

from __future__ import annotations

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.layouts.flow import (
    BOUNDARY,
    Flow,
    FlowKind,
    LayoutRule,
    channels_of,
    follow_first,
    is_feature_map,
    per_channel_constant,
    same_call,
)
from tvm_neocpu.relay_passes.operators.new.look_up import LOOK_UP
from tvm_neocpu.relay_passes.operators.new.quantize import NEAREST, WHOLE_BETWEEN

# fmt: off
UNARY = frozenset(f"relax.{name}" for name in (
    "abs", "astype", "ceil", "clip", "cos", "erf", "exp", "floor", "log", "negative", "round",
    "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square", "tanh", "nn.gelu", "nn.gelu_tanh",
    "nn.leakyrelu", "nn.relu", "nn.relu6", "nn.selu", "nn.silu", "nn.softplus",
))
BINARY = frozenset(f"relax.{name}" for name in (
    "add", "divide", "maximum", "minimum", "multiply", "power", "subtract",
))
# fmt: on


def _unary_flow(call: relax.Call) -> Flow:
    # A cast may make truths of a map, which are none.
    return follow_first(call) if is_feature_map(call.args[0]) and is_feature_map(call) else BOUNDARY


def _binary_flow(call: relax.Call) -> Flow:
    if not is_feature_map(call):
        return BOUNDARY
    channels = channels_of(call)
    constants = [arg for arg in call.args if isinstance(arg, GenericConst)]
    if not all(per_channel_constant(constant, channels) for constant in constants):
        return BOUNDARY
    tensors = tuple(arg for arg in call.args if not isinstance(arg, GenericConst))
    if not all(is_feature_map(t) and channels_of(t) in (1, channels) for t in tensors):
        return BOUNDARY
    if len(tensors) == 1:
        same = channels_of(tensors[0]) == channels
        return Flow(FlowKind.FOLLOW, tensors) if same else BOUNDARY
    # A single channel broadcasts over any block.
    return Flow(FlowKind.JOIN, tensors, (channels,))


_OURS = LOOK_UP, NEAREST, WHOLE_BETWEEN
RULES = {name: LayoutRule(_unary_flow, same_call) for name in (*UNARY, *_OURS)} | {
    name: LayoutRule(_binary_flow, same_call) for name in BINARY
}
