"""NumPy's files: what is damaged is said in one line, and any name can be written."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tvm_neocpu.core.arrays_file import read_arrays, write_arrays
from tvm_neocpu.core.errors import LogError, NeoCpuError

ARRAYS = {
    "file": np.arange(6.0).reshape(2, 3),
    "allow_pickle": np.ones(4, "int8"),
    "a/b": np.eye(2),
}


def write(path: Path) -> Path:
    with path.open("wb") as file:
        write_arrays(file, ARRAYS)
    return path


def test_what_is_written_is_what_numpy_reads(tmp_path: Path) -> None:
    path = write(tmp_path / "x.npz")
    with np.load(path) as found:
        assert found.files == list(ARRAYS)
    found_here = read_arrays(path)
    assert isinstance(found_here, dict) and list(found_here) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found_here[name], array)
    np.save(tmp_path / "y.npy", ARRAYS["file"])
    np.testing.assert_array_equal(read_arrays(tmp_path / "y.npy"), ARRAYS["file"])


def flipped(path: Path) -> None:
    """A byte of an array's numbers: the archive's checksum is another one."""
    content = bytearray(path.read_bytes())
    at = content.index(np.float64(5.0).tobytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


def replaced(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "or damaged"),
        (lambda path: path.write_bytes(b""), "or damaged"),
        (lambda path: path.write_bytes(b"text"), "or damaged"),
        (lambda path: path.write_bytes(pickle.dumps([1])), "or damaged"),
        (flipped, "or damaged: Bad CRC-32"),
        (lambda path: replaced(path, b"\x93NUMPY\x01\x00\x04\x00{:} "), "or damaged"),
        (lambda path: replaced(path, b"bytes"), "'x' is no array|or damaged"),
        (lambda path: np.savez(path, x=np.array([{}], dtype=object)), "or damaged"),
        (Path.unlink, "cannot read .*: No such file or directory"),
    ],
    ids=["cut", "empty", "text", "pickled", "a bit", "header", "bytes", "objects", "missing"],
)
def test_what_is_damaged_is_said_in_one_line(damage, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.npz")
    damage(path)
    with pytest.raises(NeoCpuError, match=words) as caught:
        read_arrays(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(LogError):
        read_arrays(path, LogError)
