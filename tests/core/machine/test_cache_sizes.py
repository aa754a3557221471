"""What Linux is read for: sizes of caches."""

from __future__ import annotations

from pathlib import Path

from tvm_neocpu.core.machine.cache_sizes import cache_sizes
from tvm_neocpu.core.machine.cpu import KIB, MIB


def write_caches(root: Path, *entries: tuple[str, str, str]) -> Path:
    for index, (level, kind, size) in enumerate(entries):
        folder = root / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(level + "\n")
        (folder / "type").write_text(kind + "\n")
        (folder / "size").write_text(size + "\n")
    return root


def test_cache_sizes_are_those_of_data(tmp_path: Path) -> None:
    root = write_caches(
        tmp_path,
        ("1", "Data", "48K"),
        ("1", "Instruction", "32K"),
        ("2", "Unified", "2M"),
        ("3", "Unified", "34603008"),
    )
    assert cache_sizes(root) == {1: 48 * KIB, 2: 2 * MIB, 3: 33 * MIB}


def test_cache_entries_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    root = write_caches(
        tmp_path, ("x", "Data", "48K"), ("2", "Unified", ""), ("3", "Unified", "8M")
    )
    (tmp_path / "index9").mkdir()
    assert cache_sizes(root) == {3: 8 * MIB}
    assert cache_sizes(tmp_path / "nowhere") == {}
