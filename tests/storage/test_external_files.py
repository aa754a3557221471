"""Names of files beside a model, read from its bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tvm_neocpu.storage.external_files import external_files


def saved(folder: Path, apart: bool, location: str | None = None) -> bytes:
    """A model of two weights; ``location``: each in a file of its own if ``None``."""
    weights = [
        numpy_helper.from_array(np.full((4, 4, 3, 3), n, "float32"), f"w{n}") for n in range(2)
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["y"]),
        helper.make_node("Conv", ["y", "w1"], ["z"]),
    ]
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x", "z")
    ]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], weights)
    model = helper.make_model(graph)
    options = {"all_tensors_to_one_file": location is not None, "location": location}
    onnx.save(
        model,
        folder / "net.onnx",
        save_as_external_data=apart,
        size_threshold=0,
        **(options if apart else {}),
    )
    return (folder / "net.onnx").read_bytes()


def test_every_file_is_found_once(tmp_path: Path) -> None:
    assert external_files(saved(tmp_path, apart=False), tmp_path) == []
    long = "a" * 150 + ".bin"  # its length takes two bytes
    for location, names in ((None, ["w0", "w1"]), ("all.bin", ["all.bin"]), (long, [long])):
        found = external_files(saved(tmp_path, apart=True, location=location), tmp_path)
        assert found == [tmp_path / name for name in names]


@pytest.mark.parametrize(
    "entry",
    [
        b"\x0a\x08location\x12\x04gone",
        b"\x0a\x08location\x12\x05../up",
        b"\x0a\x08location\x12\x09/dev/zero",
        b"\x0a\x08location\x12\x02\xff\xfe",
        b"\x0a\x08location\x12\x00",
        b"\x0a\x08location\x1a\x04file",  # another field
        b"\x0a\x08location",
    ],
)
def test_what_is_no_file_of_the_folder_is_left_to_the_importer(
    tmp_path: Path, entry: bytes
) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path.parent / "up").write_bytes(b"1")
    known = b"\x0a\x08location\x12\x04file"
    assert external_files(known, tmp_path) == [tmp_path / "file"]
    assert external_files(known + entry, tmp_path) is None
