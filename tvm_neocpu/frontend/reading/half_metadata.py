"""Requests for weights of half precision, as metadata of an ONNX model."""

from __future__ import annotations

import json
from collections.abc import Mapping

import onnx

from tvm_neocpu.core.machine.half import BY_DTYPE

_KEY, _LAYERS = "tvm_neocpu.half_weights", "tvm_neocpu.half_layers"


def asking_for_half(model: onnx.ModelProto, dtype: str) -> onnx.ModelProto:
    """A copy whose import asks for weights of ``dtype`` in layers that wait for memory."""
    return _noting(model, _KEY, dtype)


def asking_for_halves(model: onnx.ModelProto, layers: Mapping[str, str]) -> onnx.ModelProto:
    """A copy whose import asks for weights of a type in each of these layers, by name."""
    return _noting(model, _LAYERS, json.dumps(dict(layers)))


def asked_half(model: onnx.ModelProto) -> str | None:
    """The type that :func:`asking_for_half` noted; another word is no request."""
    found = _noted(model, _KEY)
    return found if found in BY_DTYPE else None


def asked_halves(model: onnx.ModelProto) -> dict[str, str]:
    """The types that :func:`asking_for_halves` noted; other text is no request."""
    try:
        found = json.loads(_noted(model, _LAYERS) or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): dtype for name, dtype in found.items() if dtype in list(BY_DTYPE)}


def _noting(model: onnx.ModelProto, key: str, value: str) -> onnx.ModelProto:
    asking = onnx.ModelProto()
    asking.CopyFrom(model)
    asking.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))
    return asking


def _noted(model: onnx.ModelProto, key: str) -> str | None:
    found = [entry.value for entry in model.metadata_props if entry.key == key]
    return found[-1] if found else None
