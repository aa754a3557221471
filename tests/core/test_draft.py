"""Drafts of files: they appear whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_neocpu.core.draft import draft_of


def test_a_draft_takes_its_files_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    with draft_of(path) as draft:
        draft.write_text("half")
        assert not path.exists() and draft.suffix == ".so"
    assert [found.name for found in tmp_path.iterdir()] == ["net.so"]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    path.write_text("old")
    with pytest.raises(OSError, match="full"), draft_of(path) as draft:
        draft.write_text("half")
        raise OSError("full")
    assert [found.read_text() for found in tmp_path.iterdir()] == ["old"]
