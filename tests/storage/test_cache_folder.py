"""The folder of cached files: bounds, damage, places where nothing can be written."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.storage import cache_folder
from tvm_neocpu.storage.cache_folder import KERNEL, CacheFolder


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_folder, "_said", set())


def test_which_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: f"/users/{name}")
    assert cache_folder.cache_folder({}) == Path("/users/tvm_neocpu/compiled")
    assert cache_folder.cache_folder({"TVM_NEOCPU_CACHE": "/elsewhere"}) == Path("/elsewhere")
    assert cache_folder.cache_folder({"TVM_NEOCPU_CACHE": "Off"}) is None


def test_the_oldest_entries_go(tmp_path: Path) -> None:
    store = CacheFolder(tmp_path, max_bytes=250)
    for number, key in enumerate(("a", "b", "c")):
        store.write(key, lambda path: path.write_bytes(bytes(100)) and None)
        store.drop_old(key)
        os.utime(store.path(key), (number, number))
    assert sorted(path.stem for path in tmp_path.glob("*.so")) == ["b", "c"]
    assert store.read("b", Path.read_bytes) == bytes(100)  # used now: c is older
    store.write("d", lambda path: path.write_bytes(bytes(100)) and None)
    store.drop_old("d")
    assert sorted(path.stem for path in tmp_path.glob("*.so")) == ["b", "d"]
    store.write("e", lambda path: path.write_bytes(bytes(900)) and None)
    store.drop_old("e")
    assert [path.stem for path in tmp_path.glob("*.so")] == ["e"]


def test_networks_and_kernels_have_one_bound(tmp_path: Path) -> None:
    networks = CacheFolder(tmp_path, max_bytes=250)
    kernels = CacheFolder(tmp_path, max_bytes=250, suffix=KERNEL)
    for number, (store, key) in enumerate([(networks, "a"), (kernels, "a"), (kernels, "b")]):
        assert store.write(key, lambda path: path.write_bytes(bytes(100)) and None)
        os.utime(store.path(key), (number, number))
    kernels.drop_old("a", "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kernel", "b.kernel"]
    kernels.drop_old("b")  # no more than the bound asks for
    assert len(list(tmp_path.iterdir())) == 2


def test_a_lock_can_be_asked_for_without_waiting(tmp_path: Path) -> None:
    one, other = CacheFolder(tmp_path), CacheFolder(tmp_path)
    with one.locked("a", wait=False) as mine, other.locked("a", wait=False) as theirs:
        assert mine and not theirs
    with other.locked("a", wait=False) as theirs:
        assert theirs


def test_what_cannot_be_loaded_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = CacheFolder(tmp_path)
    store.path("a").write_bytes(b"broken")

    def load(path: Path) -> None:
        raise ModuleFileError("it is damaged")

    assert store.read("a", load) is None
    assert not store.path("a").exists()
    assert "built again: it is damaged" in caplog.text
    assert store.read("a", load) is None


@pytest.mark.parametrize("name", ["file/cache", "/proc/no/cache"])
def test_a_place_for_no_folder_is_said_once(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "file").write_text("no folder")
    store = CacheFolder(tmp_path / name)
    for _ in range(3):
        assert store.read("a", Path.read_bytes) is None
        with store.locked("a"):
            store.write("a", lambda path: path.write_bytes(b"x") and None)
    assert len(caplog.records) == 1
    assert "is not used" in caplog.text and "TVM_NEOCPU_CACHE names another" in caplog.text


def test_a_full_disk_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = CacheFolder(tmp_path)

    def save(path: Path) -> None:
        raise OSError(28, "No space left on device")

    for _ in range(2):
        store.write("a", save)
    assert [record.getMessage() for record in caplog.records if "No space left" in record.msg] == []
    assert caplog.text.count("No space left on device") == 1


def test_a_lock_that_another_holds_is_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache_folder, "PATIENCE_SECONDS", 0.1)
    one, other = CacheFolder(tmp_path), CacheFolder(tmp_path)
    with one.locked("a"), other.locked("a"):
        pass
    assert "is not used" in caplog.text
    with other.locked("b"):
        assert (tmp_path / "b.lock").exists()
    assert not (tmp_path / "b.lock").exists()


def test_ctrl_c_while_a_fork_is_waited_for_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def interrupted() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    store = CacheFolder(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cache_folder, "pausing", interrupted)
        with store.locked("a"):
            pass
    with store.locked("a", wait=False) as mine:
        assert mine
