"""Calibration data from files: a folder of .npy, .npz, .png, .jpg, or one .npz of stacked arrays.

    images/*.png     one image each, for a network with one image input
    samples/*.npy    one or more samples each, for a network with one input
    samples/*.npz    an array for each input
    all.npz          the same, many samples stacked along the first axis

The first axis of every array is the batch. A sample is what one run takes: as many rows as the
network's fixed batch, one row where that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.arrays_file import read_arrays
from tvm_neocpu.quantizing.calibration.errors import CalibrationDataError
from tvm_neocpu.quantizing.calibration.images import ImageOptions, read_image
from tvm_neocpu.runtime.files.module_info import OPEN, TensorInfo

Array = NDArray[Any]
Inputs = Sequence[TensorInfo]
Samples = list[dict[str, Array]]
# What messages call arrays that come from no file.
IN_MEMORY = "accuracy_data"
# Input -> its rows so far, each with a first axis of 1.
Rows = dict[str, list[Array]]


def read_samples(source: Path, inputs: Inputs, images: ImageOptions, limit: int) -> Samples:
    """At most ``limit`` samples, in the order of the files' names.

    Raises CalibrationDataError, one line that names the file.
    """
    rows: Rows = {info.name: [] for info in inputs}
    for path in _files(source):
        for name, array in _arrays(path, inputs, images).items():
            rows[name] += [array[at : at + 1] for at in range(len(array))]
        if all(len(rows[info.name]) >= limit * _batch(info) for info in inputs):
            break
    return _samples(rows, inputs, source)[:limit]


def as_samples(
    given: Mapping[str, Any] | Sequence[Mapping[str, Any]], inputs: Inputs, limit: int
) -> Samples:
    """At most ``limit`` samples of arrays in memory, stacked by input or a list of runs' inputs.

    Raises CalibrationDataError.
    """
    what = Path(IN_MEMORY)
    runs = [given] if isinstance(given, Mapping) else list(given)
    known = {info.name: info for info in inputs}
    rows: Rows = {name: [] for name in known}
    for run in runs:
        if not isinstance(run, Mapping):
            kind = type(run).__name__
            raise CalibrationDataError(f"{what} is arrays by the inputs' names, not {kind}")
        for name in run.keys() ^ known.keys():
            wrong = f"no array for input {name!r}" if name in known else f"{name!r}"
            raise CalibrationDataError(f"{what} has {wrong}; the inputs are {', '.join(known)}")
        for name, array in run.items():
            checked = _checked(np.asarray(array), known[name], what)
            rows[name] += [checked[at : at + 1] for at in range(len(checked))]
    if not runs:
        raise CalibrationDataError(f"{what} is empty; give some typical inputs")
    return _samples(rows, inputs, what)[:limit]


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise CalibrationDataError(f"there is no calibration data {source}")
    files = sorted(path for path in source.iterdir() if path.suffix.lower() in _READERS)
    if not files:
        raise CalibrationDataError(f"the folder {source} has no file of {', '.join(_READERS)}")
    return files


def _arrays(path: Path, inputs: Inputs, images: ImageOptions) -> dict[str, Array]:
    """One file's arrays by input, each with a batch axis."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CalibrationDataError(f"{path} is no file of {', '.join(_READERS)}")
    found = reader(path, inputs, images)
    for info in inputs:
        if info.name not in found:
            has = ", ".join(found) or "none"
            raise CalibrationDataError(f"{path} has no array for input {info.name!r}; it has {has}")
    return {info.name: _checked(found[info.name], info, path) for info in inputs}


def _checked(array: Array, info: TensorInfo, path: Path) -> Array:
    """The array in the input's type, with a batch axis."""
    rows = array[None] if array.ndim == len(info.shape) - 1 else array
    fits = rows.ndim == len(info.shape) and all(
        own in (OPEN, given) for own, given in zip(info.shape[1:], rows.shape[1:], strict=True)
    )
    if not fits or not rows.size:
        raise CalibrationDataError(
            f"{path} has {list(array.shape)} for input {info.name!r}, which is {info.shape_text}"
        )
    if rows.dtype.kind not in "fiub":
        raise CalibrationDataError(f"{path} has {rows.dtype} for input {info.name!r}, no numbers")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise CalibrationDataError(f"{path} has NaN or infinities for input {info.name!r}")
    return rows.astype(info.dtype, copy=False)


def _samples(rows: Rows, inputs: Inputs, source: Path) -> Samples:
    counts = {info.name: len(rows[info.name]) // _batch(info) for info in inputs}
    if len(set(counts.values())) > 1:
        raise CalibrationDataError(f"{source} has different numbers of samples: {counts}")
    (count,) = set(counts.values())
    if count == 0:
        needed = max(map(_batch, inputs))
        raise CalibrationDataError(f"{source} has too few samples for the fixed batch of {needed}")
    return [{i.name: _stacked(rows[i.name], i, at, source) for i in inputs} for at in range(count)]


def _stacked(rows: list[Array], info: TensorInfo, at: int, source: Path) -> Array:
    """The rows of sample ``at`` as one array."""
    batch = _batch(info)
    parts = rows[at * batch : (at + 1) * batch]
    if len({part.shape for part in parts}) > 1:
        raise CalibrationDataError(
            f"{source} has samples of different shapes for input {info.name!r}, whose batch is "
            f"{batch}"
        )
    return np.concatenate(parts)


def _batch(info: TensorInfo) -> int:
    return 1 if info.shape[0] == OPEN else info.shape[0]


def _read_npy(path: Path, inputs: Inputs, images: ImageOptions) -> dict[str, Array]:
    return {_only(inputs, path).name: _load(path)}


def _read_npz(path: Path, inputs: Inputs, images: ImageOptions) -> dict[str, Array]:
    found: dict[str, Array] = _load(path)
    return found


def _read_picture(path: Path, inputs: Inputs, images: ImageOptions) -> dict[str, Array]:
    info = _only(inputs, path)
    return {info.name: read_image(path, info, images)[None]}


_READERS: dict[str, Callable[[Path, Inputs, ImageOptions], dict[str, Array]]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".png": _read_picture,
    ".jpg": _read_picture,
    ".jpeg": _read_picture,
}


def _only(inputs: Inputs, path: Path) -> TensorInfo:
    if len(inputs) > 1:
        names = ", ".join(info.name for info in inputs)
        raise CalibrationDataError(
            f"{path} has one array, and the network the inputs {names}; give .npz files"
        )
    return inputs[0]


def _load(path: Path) -> Any:
    """An array, or several by name."""
    found = read_arrays(path, CalibrationDataError)
    if isinstance(found, np.ndarray) == (path.suffix.lower() == ".npz"):
        raise CalibrationDataError(f"{path} is not what its suffix says")
    return found
