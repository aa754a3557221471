"""Exported files: one of them in a fresh process, and every kind that is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.exporting import write_module
from tvm_neocpu.runtime import host
from tvm_neocpu.runtime.binary import library_size
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.module_info import FORMAT, info_from_json

SOURCES = str(Path(tvm_neocpu.__file__).parents[1])


def run_script(
    script: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, which must end well: no error, no signal."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        check=True,
    )


FRESH = """
import sys, json, numpy as np, tvm, tvm_neocpu
lib = tvm_neocpu.load(sys.argv[1])
module = lib["net"](tvm.cpu())
module.set_input("data", np.load(sys.argv[2]))
module.run()
print(json.dumps(module.get_output(0).numpy().tolist()))
"""


@pytest.mark.compiler
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_one_exported_file_runs_in_a_fresh_process(
    suffix: str, tiny_cnn: onnx.ModelProto, data: np.ndarray, scores: np.ndarray, tmp_path: Path
) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    lib = relay.build(mod, mod_name="net")
    made, elsewhere = tmp_path / f"net{suffix}", tmp_path / "elsewhere"
    lib.export_library(made)
    elsewhere.mkdir()
    made.rename(elsewhere / made.name)
    np.save(elsewhere / "data.npy", data)
    assert list(tmp_path.iterdir()) == [elsewhere]
    done = run_script(FRESH, made.name, "data.npy", cwd=elsewhere)
    np.testing.assert_allclose(json.loads(done.stdout), scores, rtol=1e-6)
    assert done.stderr == ""


@pytest.mark.compiler
def test_a_network_that_moves_no_data_is_exported(tmp_path: Path) -> None:
    """It has no machine code: reshapes are views. A random network of the nightly run was one."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        views (float[2, 3] data) => (float[2, 1, 3] y, float[2, 1, 1, 3] z) <int64[1] axes = {1}>
        { y = Unsqueeze (data, axes) z = Unsqueeze (y, axes) }"""
    )
    mod, _ = relay.frontend.from_onnx(model)
    lib = relay.build(mod)
    lib.export_library(tmp_path / "views.so")
    module = tvm_neocpu.load(tmp_path / "views.so")["default"](tvm.cpu())
    data = np.arange(6, dtype="float32").reshape(2, 3)
    module.run(data=data)
    np.testing.assert_array_equal(module.get_output(1).numpy(), data[:, None, None])
    with pytest.raises(ModuleFileError, match=r"no machine code; write a \.so"):
        lib.export_library(tmp_path / "views.tar")
    with pytest.raises(ModuleFileError, match="it has no machine code"):
        lib.inspect_source()


@pytest.mark.compiler
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_exporting_and_loading_after_a_run_says_nothing(
    suffix: str, lib: BuiltModule, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """TVM notes something of each weight once a VM was made, and says so as it saves and loads."""
    lib["default"](tvm.cpu())
    lib.export_library(tmp_path / f"net{suffix}")
    tvm_neocpu.load(tmp_path / f"net{suffix}")
    assert capfd.readouterr() == ("", "")


@pytest.mark.compiler
def test_a_loaded_library_knows_itself_and_can_be_replaced(
    lib: BuiltModule, data: np.ndarray, scores: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "net.so"
    lib.export_library(str(path))
    loaded = tvm_neocpu.load(str(path))
    assert loaded.info == lib.info
    with pytest.raises(ModuleFileError, match="no source"):
        loaded.inspect_source()
    with pytest.raises(ModuleFileError, match="copy its file"):
        loaded.export_library(tmp_path / "again.so")
    lib.export_library(path)  # over the file that is in use
    for library in (loaded, tvm_neocpu.load(path)):
        module = library["default"](tvm.cpu())
        module.run(data=data)
        np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_a_replaced_library_answers_with_its_new_code(
    make_model: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    """The loader knows libraries by name: a network loaded after another one ran its code."""
    path, kept = tmp_path / "net.so", []
    data = np.random.default_rng(0).standard_normal((1, 3, 8, 8), dtype="float32")
    for function in ("Relu", "Neg", "Abs"):
        nodes = [
            helper.make_node("Conv", ["data", "w"], ["maps"]),
            helper.make_node(function, ["maps"], ["out"]),
        ]
        mod, params = relay.frontend.from_onnx(
            make_model(nodes, data.shape, {"w": (8, 3, 3, 3)}, (1, 8, 6, 6))
        )
        built = relay.build(mod, params=params)
        built.export_library(path)
        module = tvm_neocpu.load(path)["default"](tvm.cpu())
        again = tvm_neocpu.load(path)["default"](tvm.cpu())
        kept.append((module, again, built["default"](tvm.cpu())))
    for *loaded, expected in kept:
        expected.run(data=data)
        for module in loaded:
            module.run(data=data)
            np.testing.assert_array_equal(
                module.get_output(0).numpy(), expected.get_output(0).numpy()
            )


def test_export_without_a_compiler(
    lib: BuiltModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ModuleFileError, match="needs a C compiler; install gcc"):
        lib.export_library(tmp_path / "net.so")
    lib.export_library(tmp_path / "net.tar")
    with pytest.raises(ModuleFileError, match="needs a C compiler; install gcc"):
        tvm_neocpu.load(tmp_path / "net.tar")


@pytest.mark.parametrize("name", ["net.zip", "net", "absent/net.so"])
def test_export_to_a_bad_path(name: str, lib: BuiltModule, tmp_path: Path) -> None:
    with pytest.raises(ModuleFileError) as caught:
        lib.export_library(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_fails_leaves_nothing_behind(
    lib: BuiltModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(ModuleFileError) as caught:
        lib.export_library(tmp_path / "net.so")
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(ModuleFileError, match="cannot write"):
        lib.export_library(tmp_path / "net.so")
    assert list(tmp_path.iterdir()) == []


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
def test_an_archive_of_an_earlier_version_has_no_checksums(
    lib: BuiltModule, data: np.ndarray, scores: np.ndarray, tmp_path: Path
) -> None:
    lib.export_library(tmp_path / "net.tar")
    with (
        tarfile.open(tmp_path / "net.tar") as archive,
        tarfile.open(tmp_path / "old.tar", "w") as old,
    ):
        for member in archive.getmembers():
            member.pax_headers = {}
            old.addfile(member, archive.extractfile(member))
    module = tvm_neocpu.load(tmp_path / "old.tar")["default"](tvm.cpu())
    module.run(data=data)
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


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
        pytest.skip("the code needs nothing beyond the architecture's baseline")
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


def test_the_description_is_attached_once(lib: BuiltModule) -> None:
    write_module.attach_info(lib.module, lib.info)
    before = len(lib.module.imports)
    write_module.attach_info(lib.module, lib.info)
    assert len(lib.module.imports) == before
