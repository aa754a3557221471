"""Arrays in NumPy's files: `.npy` has one, `.npz` has them by name."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tvm_neocpu.core.errors import NeoCpuError, first_line

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_arrays(
    path: Path | str, error_type: type[NeoCpuError] = NeoCpuError
) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """The array of a ``.npy`` file, or those of a ``.npz`` file by name.

    Raises ``error_type``, in one line, for what cannot be read, is damaged or holds other objects.
    """
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            arrays = {name: found[name] for name in found.files}
    except OSError as error:
        raise error_type(f"cannot read {path}: {error.strerror or first_line(error)}") from error
    except Exception as error:  # zipfile, zlib, tokenize and NumPy each have their own
        # NumPy takes any other content for pickled data, and says how to load that.
        reason = "" if "pickle" in str(error) else f": {first_line(error)}"
        raise error_type(f"{path} is no array of NumPy's, or damaged{reason}") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise error_type(f"{path} is damaged: {name!r} is no array")
    return arrays


def write_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """One ``.npz`` with an array for each name.

    ``numpy.savez`` takes names as keywords, and so has no place for ``file`` and ``allow_pickle``.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
