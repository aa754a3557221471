"""Files whose weights are mapped: what is checked before code runs, and where weights lie."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tvm_neocpu
from tvm_neocpu.core.arena import ALIGNMENT
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.files import file_tail, module_file
from tvm_neocpu.runtime.files.file_tail import FOOTER_BYTES, read_tail
from tvm_neocpu.runtime.process import host

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
Array = NDArray[np.float32]


@pytest.fixture(params=["inside", "separate"])
def path(request: pytest.FixtureRequest, wide_lib: BuiltModule, tmp_path: Path) -> Path:
    wide_lib.export_library(tmp_path / "net.so", weights=request.param)
    return tmp_path / "net.so"


def answer(library: BuiltModule, image: Array) -> Array:
    module = library["default"](None)
    module.run(data=image)
    found: Array = module.get_output(0).numpy()
    return found


@pytest.fixture(scope="module")
def image() -> Array:
    return np.random.default_rng(0).standard_normal((1, 8, 56, 56), dtype=np.float32)


def test_weights_are_mapped_and_shared(path: Path, wide_lib: BuiltModule, image: Array) -> None:
    tail = read_tail(path, check_weights=True)
    assert tail is not None and tail.info == wide_lib.info and tail.weights
    loaded = tvm_neocpu.load(path, check_weights=True)
    weights = loaded.library.weights["main"]
    assert all(tensor.data_ptr() % ALIGNMENT == 0 for tensor in weights)
    name = "net.weights" if tail.weights_file else "net.so"
    places = [
        (int(start, 16), int(end, 16))
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith(str(path.with_name(name)))
        for start, end in [line.split()[0].split("-")]
    ]
    for tensor in weights:
        assert any(low <= tensor.data_ptr() < high for low, high in places)
    np.testing.assert_array_equal(answer(loaded, image), answer(wide_lib, image))


def test_a_file_of_its_own_moves_with_the_library(
    wide_lib: BuiltModule, image: Array, tmp_path: Path
) -> None:
    wide_lib.export_library(tmp_path / "net.so", weights="separate")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["net.so", "net.weights"]
    (tmp_path / "other").mkdir()
    for name in ("net.so", "net.weights"):
        (tmp_path / name).rename(tmp_path / "other" / name)
    loaded = tvm_neocpu.load(tmp_path / "other" / "net.so")
    np.testing.assert_array_equal(answer(loaded, image), answer(wide_lib, image))
    foreign = (tmp_path / "other" / "net.weights").read_bytes()
    (tmp_path / "other" / "net.weights").write_bytes(foreign[:9] + b"?" + foreign[10:])
    with pytest.raises(ModuleFileError, match=r"net\.weights has the weights of another library"):
        tvm_neocpu.load(tmp_path / "other" / "net.so")
    (tmp_path / "other" / "net.weights").write_bytes(b"short")
    with pytest.raises(ModuleFileError, match=r"net\.weights is truncated"):
        tvm_neocpu.load(tmp_path / "other" / "net.so")
    (tmp_path / "other" / "net.weights").unlink()
    with pytest.raises(ModuleFileError, match=r"its weights .*net\.weights: No such file"):
        tvm_neocpu.load(tmp_path / "other" / "net.so")


def test_a_link_leads_to_the_weights(wide_lib: BuiltModule, image: Array, tmp_path: Path) -> None:
    for folder in ("store", "current"):
        (tmp_path / folder).mkdir()
    wide_lib.export_library(tmp_path / "store" / "net.so", weights="separate")
    (tmp_path / "current" / "latest.so").symlink_to("../store/net.so")
    loaded = tvm_neocpu.load(tmp_path / "current" / "latest.so")
    np.testing.assert_array_equal(answer(loaded, image), answer(wide_lib, image))


def as_written_before(path: Path) -> None:
    """Without the second checksum, which earlier versions left zero."""
    path.write_bytes(path.read_bytes()[:-4] + bytes(4))


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("version", ["now", "before"])
@pytest.mark.parametrize("where", ["code", "table", "footer", "checksum"])
def test_a_changed_bit_is_refused_before_the_library_is_mapped(
    where: str, version: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version == "before":
        as_written_before(path)
        tvm_neocpu.load(path)
    places = file_tail._places(path)
    spots = {
        "code": places.code // 2,
        "table": places.table_at + 5,
        "footer": path.stat().st_size - FOOTER_BYTES + 50,
        "checksum": path.stat().st_size - 1,
    }
    flipped(path, spots[where])
    monkeypatch.setattr(module_file, "_load_linked", lambda *_: pytest.fail("it was mapped"))
    for load in (tvm_neocpu.load, tvm_neocpu.Session):
        with pytest.raises(ModuleFileError, match=r"net\.so: it is (damaged|truncated)"):
            load(path)


def test_a_changed_weight_is_found_where_it_is_looked_for(path: Path) -> None:
    tail = read_tail(path)
    assert tail is not None
    places = file_tail._places(path)
    holder = path.with_name(tail.weights_file) if tail.weights_file else path
    flipped(holder, places.weights_at + places.weights // 2)
    tvm_neocpu.load(path)
    with pytest.raises(ModuleFileError, match=r"the weights in .* are damaged"):
        tvm_neocpu.load(path, check_weights=True)


def test_another_cpu_is_refused_before_the_library_is_mapped(
    path: Path, wide_lib: BuiltModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not wide_lib.info.features:
        pytest.skip("the code needs nothing beyond the architecture's baseline")
    monkeypatch.setattr(host, "executable_features", lambda: frozenset())
    monkeypatch.setattr(module_file, "_load_linked", lambda *_: pytest.fail("it was mapped"))
    for load in (tvm_neocpu.load, tvm_neocpu.Session):
        with pytest.raises(ModuleFileError, match="and this machine lacks"):
            load(path)


def test_a_later_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm_neocpu.runtime.files import module_info

    monkeypatch.setattr(module_info, "_READABLE", (99,))
    with pytest.raises(ModuleFileError, match="was exported by tvm_neocpu"):
        tvm_neocpu.load(path)


def test_bad_options(wide_lib: BuiltModule, tmp_path: Path) -> None:
    with pytest.raises(ModuleFileError, match="weights is 'inside' or 'separate', not 'apart'"):
        wide_lib.export_library(tmp_path / "net.so", weights="apart")
    with pytest.raises(ModuleFileError, match=r"only a \.so"):
        wide_lib.export_library(tmp_path / "net.tar", weights="separate")
    assert list(tmp_path.iterdir()) == []
