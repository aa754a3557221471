"""Folders for LLVM's objects: refused in a line where their disk is full."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tvm_neocpu.codegen.scratch import ROOM_BYTES, scratch_folder
from tvm_neocpu.core.errors import ModuleFileError


def test_the_folder_goes_away_with_what_is_in_it() -> None:
    with scratch_folder() as folder:
        Path(folder, "kernel.o").write_bytes(b"code")
    assert not Path(folder).exists()


def test_a_full_disk_is_said_before_llvm_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=ROOM_BYTES - 1))
    with (
        pytest.raises(ModuleFileError, match=r"MiB are free in /.*; TMPDIR names"),
        scratch_folder(),
    ):
        raise AssertionError("nobody compiles")


def test_no_place_for_temporary_files_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with pytest.raises(ModuleFileError, match="No usable temporary directory"), scratch_folder():
        pass


def test_a_disk_that_does_not_tell_what_is_free_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: str) -> None:
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(shutil, "disk_usage", refused)
    with scratch_folder() as folder:
        assert Path(folder).is_dir()
