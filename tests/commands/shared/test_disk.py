"""What commands write: whole or not at all, and nothing before there is something to say."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tvm_neocpu.commands.shared import disk
from tvm_neocpu.core.errors import NeoCpuError


def test_a_test_leaves_no_file_and_changes_none(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    for path in (old, new, None):
        disk.check_writable(path)
    assert old.read_text() == "old" and list(tmp_path.iterdir()) == [old]
    with pytest.raises(NeoCpuError, match=r"cannot write .*: No such file or directory"):
        disk.check_writable(tmp_path / "nowhere" / "x.json")
    with pytest.raises(NeoCpuError, match=r"cannot write .*: Is a directory"):
        disk.check_writable(tmp_path)
    with pytest.raises(NeoCpuError, match="- is no file here: name one, or /dev/stdout"):
        disk.check_writable(Path("-"))


@pytest.mark.parametrize(
    "content",
    [b"\x08\x08\x12\x07onnx", b"\x7fELF\x02", b"# mine\n" + b'{"input": ["llvm", "conv2d"'],
    ids=["model", "library", "log"],
)
def test_a_report_replaces_no_model_no_library_and_no_log(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    for write in (lambda: disk.check_writable(path), lambda: disk.write_report(path, {"a": 1})):
        with pytest.raises(NeoCpuError, match=r"x\.json is no report: name another file"):
            write()
    assert path.read_bytes() == content
    disk.check_writable(path, is_report=False)


def test_a_name_that_no_file_may_have_is_one_line(tmp_path: Path) -> None:
    for write in (disk.check_writable, lambda path: disk.write_report(path, {"a": 1})):
        with pytest.raises(NeoCpuError, match=r"cannot write .*: File name too long"):
            write(tmp_path / ("x" * 300))


def test_what_a_command_writes_is_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "x.json", tmp_path / "y.json"
    (tmp_path / "folder").mkdir()
    disk.check_apart(one, None, other, Path(os.devnull), Path(os.devnull))
    with pytest.raises(NeoCpuError, match=r"x\.json is asked for twice: name another file"):
        disk.check_apart(one, other, tmp_path / "folder" / ".." / "x.json")


def test_a_report_replaces_a_report(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for report in ({"input": "caf\u00e9"}, {"b": 2}):
        disk.check_writable(path)
        disk.write_report(path, report)
    assert path.read_text() == '{\n  "b": 2\n}\n'


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    def fill(file) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "x.npz"
    path.write_bytes(b"old")
    with pytest.raises(NeoCpuError, match=r"cannot write .*x\.npz: No space left on device"):
        disk.write_file(path, fill)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_name_that_is_not_utf_8_is_spelled(tmp_path: Path) -> None:
    disk.write_text(tmp_path / "page.html", "caf\udce9")
    assert (tmp_path / "page.html").read_text() == "caf\\udce9"


def test_a_device_is_written_where_it_is() -> None:
    disk.write_text(Path(os.devnull), "text")
    assert Path(os.devnull).is_char_device()
