"""Weights in files beside the model: read, but from the model's own folder alone."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_tensor

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.checks.check_graph import is_external, stored_bytes, tensors_of


def load_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Read the external weights of a model that was read from ``path``.

    All locations are checked before the first file is opened. Raises ModelFileError for a location
    outside the model's folder (absolute, by ``..`` or a link), for what is no plain file, and for a
    file that is too short.
    """
    tensors = [tensor for tensor in tensors_of(model) if is_external(tensor)]
    for tensor in tensors:
        _check_location(tensor, path)
    for tensor in tensors:
        load_external_data_for_tensor(tensor, str(path.parent))
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _check_location(tensor: onnx.TensorProto, model: Path) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"weight {tensor.name!r} of {model}"
    folder = model.parent.resolve()
    try:
        file = (folder / location).resolve()
        offset, length = (int(entries.get(key) or 0) for key in ("offset", "length"))
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelFileError(f"{what} has a broken location: {location!r}") from error
    if Path(location).is_absolute() or not file.is_relative_to(folder):
        raise ModelFileError(f"{what} lies outside the model's folder: {location!r}")
    if not file.is_file():
        raise ModelFileError(f"{what} lies in {location!r}, which is no file")
    needed = stored_bytes(tensor)
    if offset < 0 or length not in (0, needed) or offset + needed > file.stat().st_size:
        raise ModelFileError(f"{what} is not in {location!r}: {needed} bytes from {offset} on")
