"""``relay.frontend``: importers under their classic names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_neocpu.runtime.process.fork_gate import building

if TYPE_CHECKING:
    import onnx
    import tvm

__all__ = ["from_onnx"]


@building()
def from_onnx(
    model: onnx.ModelProto | str | Path,
    shape: Mapping[str, Sequence[int | str | None]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Import an ONNX model, or the file at a path: a module and its weights by name.

    ``shape`` gives inputs by name their shapes, where the model leaves dimensions open or for
    another batch. A name, ``None`` or -1 keeps a dimension open: ``{"data": ("N", 3, 224, 224)}``
    is for any batch, and so is a model without a given shape that leaves nothing else open.
    ``("N", 3, "H", "W")`` makes a module for ``relay.build(..., shapes=[...])`` alone.

    As in classic TVM weights are frozen into the module by default, and the dictionary is then
    empty; ``freeze_params=False`` returns them, for models without operators that need their
    weights while importing. The weights of open shapes are always frozen. ``dtype`` may be a
    dictionary by input; the model's own types count otherwise.
    Raises ModelFileError, UnsupportedOperatorError, ShapeError, each with one line.
    """
    # Importing ONNX takes a second, and not everybody who imports tvm_neocpu imports a model.
    from tvm_neocpu.frontend.onnx_import import import_model
    from tvm_neocpu.frontend.open_shapes import import_open, open_extents
    from tvm_neocpu.frontend.reading.onnx_model import check_model, load_model
    from tvm_neocpu.frontend.source import remember_source

    if isinstance(model, (str, Path)):
        model = load_model(model)
    extents = open_extents(check_model(model).graph, shape)
    if extents is not None:
        return import_open(model, extents, dtype, opset), {}
    mod, params = import_model(model, shape, dtype, opset, freeze_params)
    if freeze_params:
        remember_source(mod, model, shape)
    return mod, params


@building()
def import_file(
    path: str | Path, shape: Mapping[str, Sequence[int | str | None]] | None = None
) -> tvm.IRModule:
    """:func:`from_onnx` of a file, for a build that needs the module alone: the model is not kept,
    and its large weights are not in memory twice.
    """
    from tvm_neocpu.frontend.onnx_import import import_model
    from tvm_neocpu.frontend.open_shapes import import_open, open_extents
    from tvm_neocpu.frontend.reading.onnx_model import load_model, load_to_import

    model, weights = load_to_import(path)
    extents = open_extents(model.graph, shape)
    if extents is None:
        return import_model(model, shape, weights=weights)[0]
    return import_open(model if weights is None else load_model(path), extents, "float32", None)
