"""Files that are refused: foreign, cut, changed, for another CPU, of a later format."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from fresh_process import run_script

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.files.binary import library_size
from tvm_neocpu.runtime.files.module_info import FORMAT, info_from_json
from tvm_neocpu.runtime.process import host


def _foreign(folder: Path) -> None:
    (folder / "text.so").write_text("not a library")
    (folder / "empty.so").write_bytes(b"")
    (folder / "text.tar").write_text("not an archive")
    (folder / "text.onnx").write_text("not a library")
    (folder / "folder.so").mkdir()
    (folder / "text.o").write_text("not an object")
    for name, member in (("other.tar", "text.so"), ("objects.tar", "text.o")):
        with tarfile.open(folder / name, "w") as archive:
            archive.add(folder / member, member)


@pytest.mark.parametrize(
    "name",
    [
        "missing.so",
        "text.so",
        "empty.so",
        "text.tar",
        "text.onnx",
        "folder.so",
        "other.tar",
        "objects.tar",
    ],
)
def test_foreign_files_are_one_line(name: str, tmp_path: Path) -> None:
    _foreign(tmp_path)
    with pytest.raises(ModuleFileError) as caught:
        tvm_neocpu.load(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.compiler
def test_a_module_of_stock_tvm_is_foreign(tmp_path: Path) -> None:
    a = tvm.te.placeholder((4,), name="a")
    func = tvm.te.create_prim_func([a, tvm.te.compute((4,), lambda i: a[i] + 1.0)])
    tvm.compile(func, tvm.target.Target("llvm")).export_library(str(tmp_path / "stock.so"))
    with pytest.raises(ModuleFileError, match="not exported by tvm_neocpu"):
        tvm_neocpu.load(tmp_path / "stock.so")


CUTS = """
import sys
from pathlib import Path
import tvm_neocpu
from tvm_neocpu.core.errors import ModuleFileError

whole = Path(sys.argv[1])
content = whole.read_bytes()
cut = whole.with_name("cut" + whole.suffix)
for size in map(int, sys.argv[2:]):
    cut.write_bytes(content[:size])
    try:
        tvm_neocpu.load(cut)
    except ModuleFileError as error:
        assert str(cut) in str(error) and "\\n" not in str(error), error
    else:
        print(size)
"""


def cuts(size: int, step: int) -> list[int]:
    """Places all over a file of so many bytes, at its ends, and beside every page's end."""
    pages = range(4096, size, 4096)
    return sorted({*range(0, size, step), 1, 3, 63, 64, size - 1, *pages, *(p - 1 for p in pages)})


@pytest.mark.compiler
@pytest.mark.parametrize(("suffix", "step"), [(".so", 997), (".tar", 512)])
def test_a_truncated_file_is_refused_wherever_it_is_cut(
    suffix: str, step: int, lib: BuiltModule, tmp_path: Path
) -> None:
    path = tmp_path / f"net{suffix}"
    lib.export_library(path)
    size = path.stat().st_size
    if suffix == ".tar":  # the archive ends in two empty blocks; what follows only fills it up
        size = len(path.read_bytes().rstrip(b"\0")) // 512 * 512 + 3 * 512
    sizes = map(str, cuts(size, step))
    done = run_script(CUTS, str(path), *sizes)
    assert done.stdout == "", "these sizes were loaded"


@pytest.mark.compiler
def test_a_library_whose_end_never_arrived_is_refused(lib: BuiltModule, tmp_path: Path) -> None:
    """A download may reserve the file's size first: the rest of it is zeros."""
    path = tmp_path / "net.so"
    lib.export_library(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2].ljust(len(content), b"\0"))
    done = run_script(CUTS, str(path), str(len(content)))
    assert done.stdout == ""


@pytest.mark.compiler
def test_no_code_of_a_foreign_library_runs(tmp_path: Path) -> None:
    source = tmp_path / "foreign.c"
    source.write_text(
        "#include <stdio.h>\n"
        '__attribute__((constructor)) static void run(void) { puts("it ran"); }\n'
    )
    library = tmp_path / "foreign.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    with pytest.raises(ModuleFileError, match="not exported by tvm_neocpu"):
        tvm_neocpu.load(library)
    size = str(library.stat().st_size)
    assert run_script(CUTS, str(library), size).stdout == ""


WITHOUT_WEIGHTS = """<ir_version: 8, opset_import: ["" : 17]>
    alone (float[2, 3] data) => (float[2, 3] out) { out = Relu (data) }"""


@pytest.mark.compiler
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_a_network_without_weights_has_a_checksum(suffix: str, tmp_path: Path) -> None:
    mod, _ = relay.frontend.from_onnx(onnx.parser.parse_model(WITHOUT_WEIGHTS))
    path = tmp_path / f"alone{suffix}"
    relay.build(mod).export_library(path)
    data = np.array([[-1, 2, 3], [4, -5, 6]], "float32")
    (out,) = tvm_neocpu.Session(path).run(None, {"data": data})
    np.testing.assert_array_equal(out, np.maximum(data, 0))
    check_flips(path)


@pytest.mark.compiler
def test_a_changed_bit_in_an_archive_is_refused(lib: BuiltModule, tmp_path: Path) -> None:
    """It ran before: changed code was an illegal instruction, a changed weight a wrong answer."""
    lib.export_library(tmp_path / "net.tar")
    check_flips(tmp_path / "net.tar")


def check_flips(path: Path) -> None:
    """A bit changed in code or data, wherever that is, is refused before any of it runs."""
    content = path.read_bytes()
    if path.suffix == ".tar":
        with tarfile.open(path) as archive:
            spots = [one.offset_data + one.size // 2 for one in archive.getmembers()]
    else:
        spots = [len(content) // part for part in (2, 3, 5)]
    for spot in spots:
        changed = bytearray(content)
        changed[spot] ^= 4
        path.write_bytes(changed)
        with pytest.raises(ModuleFileError, match=r"it is (damaged|truncated)"):
            tvm_neocpu.load(path)


@pytest.mark.compiler
def test_a_library_without_its_weights_is_refused(wide_lib: BuiltModule, tmp_path: Path) -> None:
    """`strip` keeps what a library's headers tell of; the first call failed."""
    path = tmp_path / "net.so"
    wide_lib.export_library(path)
    content = path.read_bytes()
    path.write_bytes(content[: library_size(path)])
    for load in (tvm_neocpu.load, tvm_neocpu.Session):
        with pytest.raises(ModuleFileError, match=r"net\.so: its weights are gone"):
            load(path)


@pytest.mark.compiler
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_a_file_for_a_cpu_that_can_more_is_refused(
    suffix: str, lib: BuiltModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"net{suffix}"
    lib.export_library(path)
    if not lib.info.features:
        pytest.skip("this CPU has its architecture's baseline alone, which no machine lacks")
    monkeypatch.setattr(host, "executable_features", lambda: frozenset())
    with pytest.raises(ModuleFileError, match=r"built for .*, and this machine lacks \w") as caught:
        tvm_neocpu.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "inputs": 3}'])
def test_a_damaged_description_is_one_line(text: str) -> None:
    with pytest.raises(ModuleFileError, match=r"x\.so"):
        info_from_json(text, "x.so")


def test_a_later_format_is_refused(lib: BuiltModule) -> None:
    assert info_from_json(lib.info.to_json(), "x.so") == lib.info
    later = lib.info._replace(format=FORMAT + 1, package="9.9")
    with pytest.raises(ModuleFileError, match=r"9\.9"):
        info_from_json(later.to_json(), "x.so")
