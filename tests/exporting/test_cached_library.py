"""A file of the cache, copied to where its user wants it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.exporting.cached_library import _copy


def test_a_full_disk_is_named_without_our_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, draft: Path) -> None:
        Path(draft).touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(draft))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(ModuleFileError, match=r"^cannot write .*net\.so: No space left on device$"):
        _copy(tmp_path / "entry.so", tmp_path / "net.so")
    assert list(tmp_path.iterdir()) == []
