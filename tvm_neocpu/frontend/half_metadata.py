"""A request to store weights in half precision, as metadata of an ONNX model."""

from __future__ import annotations

import onnx

from tvm_neocpu.core.half import BY_DTYPE

_KEY = "tvm_neocpu.half_weights"


def asking_for_half(model: onnx.ModelProto, dtype: str) -> onnx.ModelProto:
    """A copy whose import asks for weights of ``dtype`` in layers that wait for memory."""
    asking = onnx.ModelProto()
    asking.CopyFrom(model)
    asking.metadata_props.append(onnx.StringStringEntryProto(key=_KEY, value=dtype))
    return asking


def asked_half(model: onnx.ModelProto) -> str | None:
    """The type that :func:`asking_for_half` noted; another word is no request."""
    found = [entry.value for entry in model.metadata_props if entry.key == _KEY]
    return found[-1] if found and found[-1] in BY_DTYPE else None
