"""The ONNX model that a module was imported from: what can be quantised instead of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import tvm

_KEY = "_neocpu_source"


@dataclass(frozen=True)
class Source:
    """``model`` at the inputs' ``shapes``; ``main`` is what was imported."""

    model: onnx.ModelProto
    shapes: Mapping[str, Sequence[Any]]
    main: Any


def remember_source(
    mod: tvm.IRModule, model: onnx.ModelProto, shapes: Mapping[str, Sequence[Any]] | None
) -> None:
    """The model lives for as long as the module does."""
    setattr(mod, _KEY, Source(model, dict(shapes or {}), mod["main"]))


def forget_source(mod: tvm.IRModule) -> None:
    """Let go of the model: nobody will ask for it."""
    if hasattr(mod, _KEY):
        delattr(mod, _KEY)


def source_of(mod: tvm.IRModule) -> Source | None:
    """``None`` for a module that was not imported, or is not as it was imported any more."""
    source = getattr(mod, _KEY, None)
    if source is None or not source.main.same_as(mod["main"]):
        return None
    found: Source = source
    return found
